"""`growth`: the rate of `items` with a million finished items in the tables, beside the rate with empty tables."""

import time

import asyncpg

from benchmarks.lingxi_run import Work, run_lingxi
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.servers import Servers, running_servers
from benchmarks.stack import QUEUE, TEMPLATE, prepare_template
from benchmarks.stats import Run, Spread

GROWN = "bench_grown"
WANTED = 0.8
EXCLUDES = [
    "loading the finished items (by SQL, then VACUUM ANALYZE), start-up of all processes",
    "cold caches: the tables have just been written and fit into memory",
]

# As the product leaves them: tasks of 1,000 items, older than any that will be submitted, their events published.
LOAD = """
insert into media_tasks (id, workspace_id, type, total_items, queued_items, succeeded_items, last_seq,
                         next_position, created_at, round_started_at, started_at, finished_at)
select ('00000000-0000-7000-8000-' || lpad(to_hex(g), 8, '0') || '0000')::uuid, w.id, '{queue}', 1000, 0, 1000, 2002,
       1001, now() - interval '1 day', now() - interval '1 day', now() - interval '1 day', now() - interval '23 hours'
  from workspaces w, generate_series(1, {tasks}) g;
insert into media_task_items (task_id, position, ref, input, state, attempt, attempt_id, worker, started_at,
                              finished_at, last_seq, result)
select t.id, g, 'photo-' || g, '{{"durationMs": 0, "resultText": "0198f2c4-7d3a-7000-8000-000000000000"}}',
       'succeeded', 1, nextval('attempt_ids'), 'worker-0', t.started_at, t.finished_at, 1001 + g, '{{"attempt": 1}}'
  from media_tasks t, generate_series(1, 1000) g;
insert into outbox_events (type, queue, workspace_id, task_id, round, first_position, last_position, item_count,
                           published_at)
select 'items.queued', t.type, t.workspace_id, t.id, 1, p, p + 499, 500, t.created_at
  from media_tasks t, generate_series(1, 501, 500) p;
insert into outbox_events (type, workspace_id, task_id, round, published_at)
select 'task.ended', workspace_id, id, 1, finished_at from media_tasks;
insert into audit_log (workspace_id, verb, target) select workspace_id, 'task.submit', 'task:' || id from media_tasks;
"""


async def run(options: Options) -> Report:
    report = Report("growth", excludes=EXCLUDES)
    work = Work(2, 200) if options.quick else Work(20, 1_000)
    finished = 20_000 if options.quick else 1_000_000
    rounds = options.runs or (1 if options.quick else 3)
    empty: list[Run] = []
    grown: list[Run] = []
    with running_servers() as servers:
        token = await prepare_template(servers)
        seconds, size = await _load(servers, finished)
        report.say(f"loaded {finished:,} finished items in {seconds:.0f} s: {size / 1e6:,.0f} MB")
        for number in range(1, rounds + 1):
            empty.append(await run_lingxi(servers, token, work))
            grown.append(await run_lingxi(servers, token, work, template=GROWN))
            report.say(
                f"round {number}: empty {empty[-1].items_per_second:,.0f}, "
                f"grown {grown[-1].items_per_second:,.0f} items/s"
            )
    rates = {
        name: Spread.of([one.items_per_second for one in runs])
        for name, runs in (("empty", empty), ("grown", grown))
    }
    ratio = rates["grown"].median / rates["empty"].median
    report.lingxi = {
        "finishedItems": finished,
        "databaseBytes": size,
        "itemsPerSecond": rates["grown"].as_json(0),
    }
    report.peers = {"lingxi-empty": {"itemsPerSecond": rates["empty"].as_json(0)}}
    report.ratios = {"lingxi-empty": ratio}
    report.say(
        f"empty tables: {rates['empty'].text()} items/s; {finished:,} finished: {rates['grown'].text()} items/s"
    )
    report.claim("every item of every run succeeded once", "checked", True)
    if not options.quick:
        report.claim(f"at least {WANTED:g} of the rate with empty tables", round(ratio, 2), ratio >= WANTED)
    return report


async def _load(servers: Servers, finished: int) -> tuple[float, int]:
    """Make the grown database; how long it took and its size in bytes."""
    started_at = time.perf_counter()
    admin = await asyncpg.connect(servers.database_url("postgres"))
    await admin.execute(f'create database "{GROWN}" template "{TEMPLATE}"')
    connection = await asyncpg.connect(servers.database_url(GROWN))
    await connection.execute(LOAD.format(queue=QUEUE, tasks=finished // 1_000))
    await connection.execute("vacuum (analyze)")
    await connection.close()
    size = await admin.fetchval("select pg_database_size($1::name)", GROWN)
    await admin.close()
    return time.perf_counter() - started_at, int(size)
