"""One measured run of Lingxi's whole path: submit over HTTP, queue, claim, run, finish, acknowledge; and its audit."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import asyncpg

from benchmarks.http import HttpConnection
from benchmarks.machine import cpu_seconds
from benchmarks.servers import Servers, fresh_database, redis_command
from benchmarks.stack import QUEUE, TEMPLATE, Stack, running_stack
from benchmarks.stats import Run

POLL_SECONDS = 0.02
LIMIT_SECONDS = 300.0
PHYSICAL_QUEUE = QUEUE.replace(":", "-")

# Every rule that a finished task must obey, as one count of the tasks that break any of them.
BROKEN_TASKS = """
select count(*) from media_tasks t
  left join lateral (
    select count(*) as items, count(*) filter (where i.state = 'succeeded' and i.attempt = 1) as once,
           count(distinct i.last_seq) as numbers, max(i.last_seq) as newest
      from media_task_items i where i.task_id = t.id) i on true
 where t.id = any($1)
   and (t.status <> 'succeeded' or t.finished_at is null or t.succeeded_items <> t.total_items
        or (i.items, i.once, i.numbers) <> (t.total_items, t.total_items, t.total_items)
        or t.last_seq <> 2 + 2 * t.total_items or i.newest <> t.last_seq - 1
        or 1 <> (select count(*) from outbox_events e where e.task_id = t.id and e.type = 'task.ended'))
"""


@dataclass(frozen=True, slots=True)
class Work:
    """So many tasks of so many no-op items."""

    tasks: int
    items_per_task: int

    @property
    def items(self) -> int:
        return self.tasks * self.items_per_task

    def bodies(self) -> list[bytes]:
        """The requests, encoded: each item has a ref and the input of a no-op (its fields at their defaults)."""
        item_input = {"durationMs": 0, "resultText": "0198f2c4-7d3a-7000-8000-000000000000"}
        items = [{"ref": f"photo-{number}", "input": item_input} for number in range(self.items_per_task)]
        body = {"type": QUEUE, "metadata": {"album": "bench"}, "items": items}
        return [json.dumps(body).encode()] * self.tasks


async def run_lingxi(
    servers: Servers,
    token: str,
    work: Work,
    *,
    template: str = TEMPLATE,
    settings: Mapping[str, str] | None = None,
    beside: Callable[[Stack], AbstractAsyncContextManager[None]] = lambda stack: nullcontext(),
) -> Run:
    """One run on a copy of `template`, with two worker processes. RuntimeError when the result is not exactly right.

    `beside` is open for as long as the run is measured.
    """
    async with (
        fresh_database(servers, "bench_lingxi", template=template) as database_url,
        running_stack(servers, database_url, token, processes=2, settings=settings) as stack,
        beside(stack),
    ):
        assert stack.worker is not None
        connection = await asyncpg.connect(database_url)
        http = await stack.connect()
        groups = {
            "workers": [stack.worker.pid],
            "api": [stack.api.pid],
            "postgres": [servers.postgres_pid],
            "valkey": [servers.valkey_pid],
        }
        bodies = work.bodies()
        before = {name: cpu_seconds(pids) for name, pids in groups.items()}
        started_at = time.monotonic()
        task_ids = await submit_all(http, bodies)
        submit_seconds = time.monotonic() - started_at
        await _until_finished(connection, task_ids)
        seconds = time.monotonic() - started_at
        after = {name: cpu_seconds(pids) for name, pids in groups.items()}
        acknowledged_seconds = await _until_acknowledged(servers, started_at)
        await _check(connection, task_ids, work)
        http.close()
        await connection.close()
        return Run(
            items_per_second=work.items / seconds,
            submit_seconds=submit_seconds,
            cpu_microseconds={
                name: round((after[name] - before[name]) / work.items * 1e6, 1) for name in groups
            },
            acknowledged_per_second=work.items / acknowledged_seconds,
        )


async def submit_all(http: HttpConnection, bodies: list[bytes]) -> list[Any]:
    """One task after another over one connection; their ids."""
    task_ids = []
    for body in bodies:
        answer = await http.post("/api/v1/media-tasks", body)
        if answer.status != 202:
            raise RuntimeError(f"submit answered {answer.status}: {answer.body[:500]!r}")
        task_ids.append(answer.json()["id"])
    return task_ids


async def _until_finished(connection: asyncpg.Connection, task_ids: list[Any]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    unfinished = "select count(*) from media_tasks where id = any($1) and finished_at is null"
    while left := await connection.fetchval(unfinished, task_ids):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{left} tasks did not finish within {LIMIT_SECONDS:.0f} s")
        await asyncio.sleep(POLL_SECONDS)


async def _until_acknowledged(servers: Servers, started_at: float) -> float:
    """Seconds until Redis holds no waiting and no active job any more, by Redis's own lists."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        counts = [
            int((await redis_command(servers, *command, f"bull:{PHYSICAL_QUEUE}:{key}"))[1:])
            for command, key in ((("LLEN",), "wait"), (("ZCARD",), "prioritized"), (("LLEN",), "active"))
        ]
        if not any(counts):
            return time.monotonic() - started_at
        await asyncio.sleep(POLL_SECONDS)
    raise RuntimeError(f"jobs are left in Redis (wait, prioritized, active): {counts}")


async def _check(connection: asyncpg.Connection, task_ids: list[Any], work: Work) -> None:
    broken = await connection.fetchval(BROKEN_TASKS, task_ids)
    attempts = await connection.fetchval(
        "select count(*) from media_task_attempts where task_id = any($1)", task_ids
    )
    audits = await connection.fetchval(
        "select count(*) from audit_log where target = any($1)", [f"task:{task_id}" for task_id in task_ids]
    )
    if broken or attempts or len(set(task_ids)) != work.tasks or audits != work.tasks:
        raise RuntimeError(
            f"{broken} of {len(task_ids)} tasks are not as they should be, "
            f"{attempts} attempts beside the successful ones, {audits} audit rows for {work.tasks} tasks"
        )
