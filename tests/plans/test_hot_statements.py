"""With a million finished items in the tables, no hot statement reads a table from end to end.

The server itself counts: `pg_stat_xact_user_tables` tells what the open transaction has read, inside functions too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from lingxi.db.query import sql
from lingxi.db.session import HOT_SETTINGS
from lingxi.domain.decide import Decision
from lingxi.domain.ids import new_task_id
from lingxi.services.cancel_task import cancel_task
from lingxi.services.claim_items import ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.queue_holds import list_holds
from lingxi.services.quotas import charge_open_items
from lingxi.services.read_tasks import TaskFilter, get_task, list_items, list_tasks
from lingxi.services.renew_leases import renew_leases
from lingxi.services.requeue_lost import WaitingTask, expected_jobs, requeue_items, waiting_tasks
from lingxi.services.retention import prune_rest_of_task, prune_step
from lingxi.services.retry_failed import retry_failed
from lingxi.services.set_priority import set_priority
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.sweep_leases import sweep_leases
from lingxi.services.tokens import create_token, find_token
from tests.support.databases import create_database, drop_database
from tests.support.servers import Servers

FINISHED_TASKS, ITEMS = 1_000, 1_000
BIG = (
    "media_task_items",
    "media_tasks",
    "outbox_events",
    "media_task_attempts",
    "idempotency_keys",
    "audit_log",
    "tokens",
)

FILL = """
insert into workspaces (id, name) values ('{ws}', 'old');
insert into media_tasks (id, workspace_id, type, total_items, queued_items, succeeded_items, last_seq, created_at, finished_at)
select (lpad(to_hex(g), 12, '0') || '70008000000000000000')::uuid, '{ws}', 'demo:drill', {items}, 0, {items}, 2 * {items} + 2,
       now() - interval '1 day', now()
  from generate_series(1, {tasks}) g;
insert into media_task_items (task_id, position, input, state, attempt, attempt_id, started_at, finished_at, last_seq)
select t.id, p, '{{}}', 'succeeded', 1, 1, now(), now(), {items} + p from media_tasks t, generate_series(1, {items}) p;
insert into media_task_attempts (id, task_id, position, round, number, started_at, finished_at, outcome)
select -row_number() over (), t.id, p, 1, 1, now(), now(), 'retrying' from media_tasks t, generate_series(1, 100) p;
insert into outbox_events (type, queue, workspace_id, task_id, round, first_position, last_position, item_count, published_at)
select 'items.queued', 'demo:drill', '{ws}', t.id, 1, 500 * k + 1, 500 * k + 500, 500, now()
  from media_tasks t, generate_series(0, 1) k, generate_series(1, 20);
insert into idempotency_keys (workspace_id, method, path, key, body_sha256)
select '{ws}', 'POST', '/x', g::text, '' from generate_series(1, 50000) g;
insert into audit_log (workspace_id, verb, target) select '{ws}', 'v', 't' from generate_series(1, 50000);
insert into tokens (id, workspace_id, role, name, secret_hash)
select gen_random_uuid(), '{ws}', 'viewer', 'n', decode(md5(g::text), 'hex') from generate_series(1, 20000) g;
"""


class Database:
    """A connection to the big database, and what the tests need to know of it."""

    def __init__(self, connection: asyncpg.Connection[Any], workspace: UUID, token: str) -> None:
        self.connection, self.workspace, self.token = connection, workspace, token

    async def new_task(self, size: int = 1_000) -> UUID:
        new = NewTask(self.workspace, "demo:drill", 1, [None] * size, ["{}"] * size)
        return (await submit_task(self.connection, new)).id

    async def claim(self, task: UUID, count: int = 100) -> list[Any]:
        keys = [ItemKey(task, position) for position in range(1, count + 1)]
        return await claim_items(
            self.connection, "demo:drill", keys, worker="w", lease_seconds=60, time_limit_seconds=60
        )

    async def finish(self, claims: list[Any], outcome: Any = "succeeded") -> Any:
        code = None if outcome == "succeeded" else "drill_failed"
        return await finish_items(
            self.connection,
            [Ending(c.key, c.fence, Decision(outcome, None, code, code, False)) for c in claims],
        )


Statement = Callable[[Database, UUID], Awaitable[object]]


async def renew(db: Database, task: UUID) -> object:
    return await renew_leases(
        db.connection, [(c.key, c.fence) for c in await db.claim(task)], lease_seconds=30
    )


async def end_with_failures(db: Database, task: UUID) -> None:
    await db.finish(await db.claim(task, 50), "failed")
    await cancel_task(db.connection, db.workspace, task)


async def finish(db: Database, task: UUID) -> object:
    return await db.finish(await db.claim(task))


async def requeue(db: Database, task: UUID) -> object:
    await waiting_tasks(db.connection, ["demo:drill"])
    await expected_jobs(db.connection, WaitingTask(task, "demo:drill", 1), published_seconds_ago=0)
    return await requeue_items(db.connection, task, [1, 2, 3])


EVENTS = ["items.queued", "task.ended"]


async def dispatch(db: Database, task: UUID) -> object:
    rows = await db.connection.fetch(sql("outbox/claim_due"), 20, ["demo:drill"], 1, EVENTS, [], [])
    ids = [row["id"] for row in rows]
    await db.connection.fetch(sql("outbox/items_of_events"), ids)
    return await db.connection.execute(sql("outbox/mark_published"), ids)


async def watch(db: Database, task: UUID) -> object:
    return await db.connection.fetch(sql("stream/read_tasks"), [task], [0], [0], [500], [False], 128 * 1024)


async def idempotency(db: Database, task: UUID) -> object:
    key = (db.workspace, "POST", "/y", "k")
    await db.connection.fetch(sql("idempotency/reserve"), *key, b"", 86_400.0)
    return await db.connection.fetch(sql("idempotency/find"), *key, 86_400.0)


async def prune(db: Database, task: UUID) -> object:
    for kind in ("tasks", "events", "audit", "objects", "keys"):
        await prune_step(db.connection, kind, 5 * 86_400.0)
    await db.connection.execute("insert into pruned_tasks (task_id) values ($1)", task)
    return await prune_rest_of_task(db.connection)


async def steer(db: Database, task: UUID) -> object:
    """What each claim, round of the dispatcher and submission asks of what operators have set, and a change of priority."""
    await list_holds(db.connection)
    await charge_open_items(db.connection, db.workspace, 1, 100_000)
    return await set_priority(db.connection, db.workspace, task, 0)


ON_HOT_CONNECTIONS: dict[str, Statement] = {
    "claim": lambda db, task: db.claim(task),
    "finish": finish,
    "renew": renew,
    "sweep": lambda db, task: sweep_leases(db.connection),
    "requeue": requeue,
    "dispatch": dispatch,
    "watch": watch,
    "prune": prune,
    "steer": steer,
}
"""What workers, the dispatcher and the stream run."""

ON_PLAIN_CONNECTIONS: dict[str, Statement] = {
    "submit": lambda db, task: db.new_task(),
    "cancel": lambda db, task: cancel_task(db.connection, db.workspace, task),
    "retry_failed": lambda db, task: retry_failed(db.connection, db.workspace, task),
    "get": lambda db, task: get_task(db.connection, db.workspace, task),
    "list": lambda db, task: list_tasks(db.connection, db.workspace, TaskFilter(), after=None, limit=50),
    "items": lambda db, task: list_items(db.connection, task, states=None, after_position=0, limit=50),
    "token": lambda db, task: find_token(db.connection, db.token),
    "idempotency": idempotency,
    "oldest_waiting": lambda db, task: db.connection.fetch(sql("health/oldest_waiting"), ["demo:drill"]),
    "outbox_counts": lambda db, task: db.connection.fetch(sql("outbox/counts")),
}
"""What the API runs for a request, with the planner left free."""

PREPARE: dict[str, Callable[[Database, UUID], Awaitable[None]]] = {"retry_failed": end_with_failures}


async def fill(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(FILL.format(ws=uuid4(), tasks=FINISHED_TASKS, items=ITEMS), timeout=300)
    await connection.execute("vacuum analyze", timeout=300)
    await connection.close()


@pytest.fixture(scope="module")
def big_database(servers: Servers, template: str, worker_name: str) -> Iterator[str]:
    """A database with a million finished items, made once for this module."""
    url = asyncio.run(create_database(servers, f"{worker_name}_plans", template))
    asyncio.run(fill(url))
    yield url
    asyncio.run(drop_database(servers, url))


async def scans(
    connection: asyncpg.Connection[Any], beside: asyncpg.Connection[Any], statements: dict[str, Statement]
) -> dict[str, int]:
    """Rows that each statement read from tables without an index. What it needs is prepared on the connection `beside`:
    a connection keeps its counts over several transactions."""
    workspace = await connection.fetchval("select id from workspaces limit 1")
    _, token = await create_token(connection, workspace_id=workspace, role="viewer", name="t")
    db, other = Database(connection, workspace, token), Database(beside, workspace, token)
    read: dict[str, int] = {}
    for name, statement in statements.items():
        task = await other.new_task()
        if name in PREPARE:
            await PREPARE[name](other, task)
        transaction = connection.transaction()
        await transaction.start()
        await statement(db, task)
        rows = await connection.fetch(
            "select relname, seq_scan, seq_tup_read from pg_stat_xact_user_tables where relname = any($1) and seq_scan > 0",
            list(BIG),
        )
        await transaction.rollback()
        read |= {f"{name}: {row['relname']}": row["seq_tup_read"] for row in rows}
    return read


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["hot", "plain"])
async def test_no_hot_statement_scans_a_table(big_database: str, kind: str) -> None:
    statements = ON_HOT_CONNECTIONS if kind == "hot" else ON_PLAIN_CONNECTIONS
    connection = await asyncpg.connect(big_database, server_settings=HOT_SETTINGS if kind == "hot" else {})
    beside = await asyncpg.connect(big_database, server_settings=HOT_SETTINGS)
    try:
        assert await scans(connection, beside, statements) == {}
    finally:
        await connection.close()
        await beside.close()


async def test_the_count_would_show_a_scan(big_database: str) -> None:
    """The check bites: a statement without an index is seen."""
    connection = await asyncpg.connect(big_database)
    async with connection.transaction():
        await connection.fetch("select count(*) from media_task_items where ref = 'nobody'")
        scans = await connection.fetchval(
            "select seq_scan from pg_stat_xact_user_tables where relname = 'media_task_items'"
        )
    await connection.close()
    assert scans > 0


def test_new_ids_leave_room_for_positions() -> None:
    assert new_task_id().int & 0xFFFF == 0
