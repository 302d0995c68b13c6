"""What is kept for how long, and the removal of what is older, in small steps that lock little and never wait."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection, Pool, transaction
from lingxi.services.remember_answer import REMEMBERED_SECONDS

ROWS_A_STEP: Final = 500
TASKS_A_STEP: Final = 50
OBJECTS_A_STEP: Final = 2_000  # more than of others, since each step reads what is open
KINDS: Final = ("tasks", "items", "events", "webhooks", "audit", "objects", "keys")
"""What is told of. Items go with their tasks."""

_DAY_SECONDS: Final = 86_400.0
_WORKERS_SECONDS: Final = _DAY_SECONDS
_TRACES_SECONDS: Final = 7 * _DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Retention:
    """Days; 0 is for ever. Tasks count from their end, events from their publication, objects from when they were last put."""

    tasks_days: float = 30.0
    events_days: float = 7.0
    webhooks_days: float = 30.0
    audit_days: float = 400.0
    objects_days: float = 0.0

    def seconds(self) -> dict[str, float | None]:
        """By kind how long it is kept; None: for ever."""
        days = {
            "tasks": self.tasks_days, "events": self.events_days, "webhooks": self.webhooks_days, "audit": self.audit_days,
            "objects": self.objects_days,
        }  # fmt: skip
        kept = {kind: number * _DAY_SECONDS if number else None for kind, number in days.items()}
        return {**kept, "keys": float(REMEMBERED_SECONDS)}


async def count_prunable(connection: Connection, retention: Retention) -> dict[str, int]:
    """By kind how many rows would be removed now."""
    row = await connection.fetchrow(sql("prune/counts"), *retention.seconds().values())
    assert row is not None
    return {kind: row[kind] for kind in KINDS}


async def prune_steps(
    pool: Pool, retention: Retention, *, most: int, stopped: Callable[[], bool] = lambda: False
) -> AsyncIterator[tuple[str, int]]:
    """At most so many steps of each kind, each in its own transaction: the kind, and how many rows are gone with it.

    Several at once do no harm: each steps over what another has locked. `stopped` is asked before each step.
    """
    for kind, kept_seconds in retention.seconds().items():
        for _ in range(most):
            if kept_seconds is None or stopped():
                break
            async with transaction(pool) as connection:
                number, more = await prune_step(connection, kind, kept_seconds)
            yield kind, number
            if not more:
                break
    for _ in range(most):
        if stopped():
            break
        async with transaction(pool) as connection:
            items, more = await prune_rest_of_task(connection)
        yield "items", items
        if not more:
            break
    async with transaction(pool) as connection:
        await prune_leftovers(connection)


async def prune_step(connection: Connection, kind: str, kept_seconds: float) -> tuple[int, bool]:
    """Removes the oldest few of a kind; how many, and whether there may be more."""
    statements = {
        "tasks": sql("prune/tasks"), "events": sql("prune/events"), "webhooks": sql("prune/webhooks"),
        "audit": sql("prune/audit"), "objects": sql("prune/objects"), "keys": sql("prune/keys"),
    }  # fmt: skip
    most = {"tasks": TASKS_A_STEP, "objects": OBJECTS_A_STEP}.get(kind, ROWS_A_STEP)
    removed = _number(await connection.execute(statements[kind], kept_seconds, most))
    return removed, removed == most


async def prune_rest_of_task(connection: Connection) -> tuple[int, bool]:
    """Removes rows of a task that is gone; how many items, and whether there may be more of it or of another."""
    task_id: UUID | None = await connection.fetchval(sql("prune/take"))
    if task_id is None:
        return 0, False
    removed = [
        _number(await connection.execute(statement, task_id, ROWS_A_STEP))
        for statement in (
            sql("prune/items"), sql("prune/attempts"), sql("prune/events_of_task"), sql("prune/effects"),
        )
    ]  # fmt: skip
    if max(removed) < ROWS_A_STEP:
        await connection.execute(sql("prune/done"), task_id)
    return removed[0], True


async def prune_leftovers(connection: Connection) -> None:
    """A few of what nobody misses: rows of worker processes that are gone, old traces."""
    await connection.execute(sql("prune/workers"), _WORKERS_SECONDS, ROWS_A_STEP)
    await connection.execute(sql("prune/traces"), _TRACES_SECONDS, ROWS_A_STEP)


def _number(status: str) -> int:
    """Of rows, from what PostgreSQL says: `DELETE 5`."""
    return int(status.rpartition(" ")[2])
