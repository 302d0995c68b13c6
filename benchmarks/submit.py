"""`submit`: a task of 1,000 items over HTTP, beside a bare INSERT of as many rows on the same server."""

import asyncio
import json
import time

import asyncpg

from benchmarks.http import HttpConnection
from benchmarks.lingxi_run import Work, submit_all
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.servers import fresh_database, running_servers
from benchmarks.stack import TEMPLATE, Stack, prepare_template, running_stack
from benchmarks.stats import Spread

LIMIT = 4.0
ITEMS = 1_000
WARM_UP = 5
BARE = {
    "insert-with-key": "bare_keyed (id bigint generated always as identity primary key, ref text, input jsonb)",
    "insert-no-key": "bare_heap (ref text, input jsonb)",
}
EXCLUDES = [
    "encoding the request in the client (done once before)",
    "the dispatcher's work on the task: each measurement waits until the outbox is empty",
    "workers (none run), TLS and the network (loopback)",
]


async def run(options: Options) -> Report:
    report = Report("submit", excludes=EXCLUDES)
    rounds = options.runs or (5 if options.quick else 60)
    settings = {"QUEUE_WAITING_LIMIT": "1000000"}  # nobody takes the jobs
    with running_servers() as servers:
        token = await prepare_template(servers)
        async with (
            fresh_database(servers, "bench_submit", template=TEMPLATE) as database_url,
            running_stack(servers, database_url, token, processes=0, settings=settings) as stack,
        ):
            times = await _measure(stack, database_url, rounds)
    ours = Spread.of(times.pop("lingxi"))
    report.lingxi = {"items": ITEMS, "milliseconds": ours.as_json(2)}
    report.say(
        f"lingxi: POST /media-tasks of {ITEMS} items: {ours.text(2)} ms, p99 {ours.percentile(99):.2f}"
    )
    for name, values in times.items():
        bare = Spread.of(values)
        report.peers[name] = {"rows": ITEMS, "milliseconds": bare.as_json(2), "how": BARE[name]}
        report.ratios[name] = bare.median / ours.median
        report.say(f"{name}: {ITEMS} rows into {BARE[name]}: {bare.text(2)} ms")
    factor = ours.median / Spread.of(times["insert-with-key"]).median
    report.claim("all tasks were stored whole", "checked", True)
    if not options.quick:
        text = f"a task of {ITEMS} items over HTTP within {LIMIT:g} × a bare insert of as many keyed rows"
        report.claim(text, round(factor, 2), factor <= LIMIT)
    return report


async def _measure(stack: Stack, database_url: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each, taken in turn; RuntimeError when a task is not stored whole."""
    connection = await asyncpg.connect(database_url)
    http = await stack.connect()
    work = Work(1, ITEMS)
    body = work.bodies()[0]
    items = json.loads(body)["items"]
    refs, inputs = [item["ref"] for item in items], [json.dumps(item["input"]) for item in items]
    inserts = {}
    for name, table in BARE.items():
        await connection.execute(f"create table {table}")
        inserts[name] = await connection.prepare(
            f"insert into {table.split()[0]} (ref, input)"
            " select u.ref, u.input::jsonb from unnest($1::text[], $2::text[]) u(ref, input)"
        )
    times: dict[str, list[float]] = {"lingxi": [], **{name: [] for name in BARE}}
    for number in range(WARM_UP + rounds):
        measured = {"lingxi": await _submit(http, body)}
        await _until_dispatched(connection)
        for name, statement in inserts.items():
            started_at = time.perf_counter()
            await statement.fetch(refs, inputs)
            measured[name] = (time.perf_counter() - started_at) * 1e3
        if number >= WARM_UP:
            for name, value in measured.items():
                times[name].append(value)
    await _check(connection, WARM_UP + rounds)
    http.close()
    await connection.close()
    return times


async def _submit(http: HttpConnection, body: bytes) -> float:
    started_at = time.perf_counter()
    await submit_all(http, [body])
    return (time.perf_counter() - started_at) * 1e3


async def _until_dispatched(connection: asyncpg.Connection) -> None:
    async with asyncio.timeout(30):
        while await connection.fetchval(
            "select exists (select from outbox_events where published_at is null)"
        ):
            await asyncio.sleep(0.01)


async def _check(connection: asyncpg.Connection, tasks: int) -> None:
    whole = await connection.fetchval(
        "select count(*) from media_tasks t where queued_items = $1 and status = 'queued'"
        " and $1 = (select count(*) from media_task_items i where i.task_id = t.id and i.state = 'queued')",
        ITEMS,
    )
    if whole != tasks:
        raise RuntimeError(f"{whole} of {tasks} tasks were stored whole")
