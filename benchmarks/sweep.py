"""`sweep`: one sweep over a million waiting items after Redis was wiped, while others claim from the same tasks."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.servers import Servers, fresh_database, running_servers
from benchmarks.stack import QUEUE, TEMPLATE, prepare_template
from benchmarks.stats import Spread
from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.hints import Hints
from lingxi.broker.marker import WipeMarker
from lingxi.broker.queue import BullQueue
from lingxi.db.session import create_pool
from lingxi.maintenance.sweeper import Sweeper
from lingxi.services.claim_items import ItemKey, claim_items

ITEMS_A_TASK = 10_000  # the most that a task may hold
EVERY = 200  # of so many items one runs under a lease that ran out, one under a live one, and one is claimed meanwhile
LOST, LIVE, CLAIMED = 0, 1, 2
SAMPLE_SECONDS = 0.003
MOST_MILLISECONDS = 100.0
SWEEP = "bench_sweep"

LOAD = f"""
insert into media_tasks (id, workspace_id, type, total_items, queued_items, running_items, last_seq, next_position)
select ('00000000-0000-7000-8000-' || lpad(to_hex(g), 8, '0') || '0000')::uuid, w.id, '{QUEUE}', {ITEMS_A_TASK},
       {ITEMS_A_TASK - 2 * ITEMS_A_TASK // EVERY}, {2 * ITEMS_A_TASK // EVERY}, 1, {ITEMS_A_TASK + 1}
  from workspaces w, generate_series(1, {{tasks}}) g;
insert into media_task_items (task_id, position, input, state, attempt, attempt_id, worker, started_at, lease_expires_at,
                              deadline_at)
select t.id, g, '{{{{}}}}', case when runs then 'running' else 'queued' end, runs::int,
       case when runs then nextval('attempt_ids') end, case when runs then 'worker:1:boot' end,
       case when runs then now() - interval '5 minutes' end,
       case g % {EVERY} when {LOST} then now() - interval '1 minute' when {LIVE} then now() + interval '1 hour' end,
       case when runs then now() + interval '1 hour' end
  from media_tasks t, generate_series(1, {ITEMS_A_TASK}) g, lateral (select g % {EVERY} in ({LOST}, {LIVE}) as runs) r;
insert into outbox_events (type, queue, workspace_id, task_id, round, first_position, last_position, item_count,
                           published_at)
select 'items.queued', t.type, t.workspace_id, t.id, 1, p, p + 499, 500, now() - interval '10 minutes'
  from media_tasks t, generate_series(1, {ITEMS_A_TASK}, 500) p;
"""
HOLDING_SINCE = """
select extract(epoch from clock_timestamp() - xact_start)::float8 * 1000, query like 'COMMIT%' from pg_stat_activity a
 where application_name = $1 and backend_xid is not null
   and exists (select from pg_locks l where l.pid = a.pid and l.mode in ('RowShareLock', 'RowExclusiveLock')
                  and l.relation in ('media_tasks'::regclass, 'media_task_items'::regclass))
"""
LIVE_AND_AS_IT_WAS = f"""
select count(*) from media_task_items
 where position % {EVERY} = {LIVE} and state = 'running' and attempt = 1 and worker = 'worker:1:boot'
"""
FORGOTTEN = """
select count(*) from media_task_items i
 where i.state = 'queued'
   and not exists (select from outbox_events e where e.task_id = i.task_id and e.published_at is null
                      and i.position = any(e.positions))
"""


@dataclass(frozen=True, slots=True)
class Swept:
    """One sweep, its times in seconds and milliseconds. A lock is held `working` long, and then until its `flush` is on disk."""

    seconds: float
    working: float
    flush: float
    claims: Spread


async def run(options: Options) -> Report:
    report = Report("sweep", excludes=["the load's making, by SQL", "what the dispatcher then sends"])
    tasks = 2 if options.quick else 100
    rounds: list[Swept] = []
    with running_servers() as servers:
        await prepare_template(servers)
        for number in range(1, (options.runs or (1 if options.quick else 3)) + 1):
            async with fresh_database(servers, f"{SWEEP}_{number}", template=TEMPLATE) as url:
                rounds.append(one := await _sweep(servers, url, tasks))
            report.say(
                f"round {number}: {tasks * ITEMS_A_TASK:,} items in {one.seconds:.1f} s; locks held for {one.working:.0f} ms "
                f"at most, until the disk has them {one.flush:.0f} ms; {len(one.claims.runs)} claims beside it: median "
                f"{one.claims.median:.1f} ms, p99 {one.claims.percentile(99):.0f} ms, longest {one.claims.high:.0f} ms"
            )
    report.lingxi = {
        "items": tasks * ITEMS_A_TASK,
        "seconds": Spread.of([one.seconds for one in rounds]).as_json(),
        "longestLockMilliseconds": Spread.of([one.working for one in rounds]).as_json(),
        "longestLockWithFlushMilliseconds": Spread.of([one.flush for one in rounds]).as_json(),
        "claimP99Milliseconds": Spread.of([one.claims.percentile(99) for one in rounds]).as_json(),
        "longestClaimMilliseconds": Spread.of([one.claims.high for one in rounds]).as_json(),
    }
    report.claim("all that was lost was found, and nothing that lives was touched", "checked", True)
    if not options.quick:
        longest = max(one.working for one in rounds)
        report.claim(
            f"no lock was held for more than {MOST_MILLISECONDS:g} ms before its commit",
            round(longest, 1),
            longest <= MOST_MILLISECONDS,
        )
        with_flush = max(one.flush for one in rounds)
        report.claim(
            f"the same with the commit's flush, which is the disk's time ({MOST_MILLISECONDS:g} ms)",
            round(with_flush, 1),
            with_flush <= MOST_MILLISECONDS,
            required=False,
        )
    return report


async def _sweep(servers: Servers, url: str, tasks: int) -> Swept:
    connection = await asyncpg.connect(url)
    await connection.execute(LOAD.format(tasks=tasks))
    await connection.execute("vacuum (analyze)")
    await connection.execute("checkpoint")
    client = api_client(servers.redis_url)
    queue = BullQueue(QUEUE, connection_factory(servers.redis_url), token=SWEEP)
    pool = await create_pool(url, name=SWEEP)
    sweeper = Sweeper(pool, {QUEUE: queue}, WipeMarker(client), Hints(client))
    locks: list[tuple[float, bool]] = []
    claims: list[float] = []
    try:
        async with _beside(_locks(url, locks)), _beside(_claims(url, claims)):
            started = time.perf_counter()
            counts = await sweeper.run_once()
            seconds = time.perf_counter() - started
    finally:
        await pool.close()
        await queue.close()
        await client.aclose()
    each = tasks * ITEMS_A_TASK // EVERY
    found = {
        "lost": counts.lost,
        "live": await connection.fetchval(LIVE_AND_AS_IT_WAS),
        "forgotten": await connection.fetchval(FORGOTTEN),
    }
    await connection.close()
    if found != {"lost": each, "live": each, "forgotten": 0}:
        raise RuntimeError(f"the sweep did wrong: {found}, of {each} lost and {each} live")
    working = max((held for held, flushing in locks if not flushing), default=0.0)
    return Swept(seconds, working, max((held for held, _ in locks), default=0.0), Spread.of(claims))


@asynccontextmanager
async def _beside(measuring: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """It runs while the block does; what it failed of is raised."""
    task = asyncio.create_task(measuring)
    yield
    if not task.cancel():
        await task
    await asyncio.gather(task, return_exceptions=True)


async def _locks(url: str, found: list[tuple[float, bool]]) -> None:
    """How long the sweep's transaction has held rows of tasks or items, and whether it waits for the disk to end.

    Every few milliseconds. An event that is put into the outbox locks nothing that others wait for.
    """
    connection = await asyncpg.connect(url)
    while True:
        found += [(row[0], row[1]) for row in await connection.fetch(HOLDING_SINCE, SWEEP)]
        await asyncio.sleep(SAMPLE_SECONDS)


async def _claims(url: str, found: list[float]) -> None:
    """Milliseconds of one claim after another: each changes a task's row, as the sweep does."""
    connection = await asyncpg.connect(url)
    tasks = [row["id"] for row in await connection.fetch("select id from media_tasks order by id")]
    for position in range(CLAIMED, ITEMS_A_TASK, EVERY):
        for task in tasks:
            started = time.perf_counter()
            async with connection.transaction():
                await claim_items(
                    connection,
                    QUEUE,
                    [ItemKey(task, position)],
                    worker="other:1:boot",
                    lease_seconds=600,
                    time_limit_seconds=600,
                )
            found.append((time.perf_counter() - started) * 1000)
