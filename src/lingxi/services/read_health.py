"""What PostgreSQL knows about the queues and the outbox, for health and metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.names import PRIORITY_NAMES
from lingxi.services.queue_holds import Hold, list_holds


@dataclass(frozen=True, slots=True)
class DatabaseView:
    """`holds`: queues that are paused or draining by hand.

    `oldest_seconds`: for each queue the longest wait of any item that is due, 0 when none. `retrying`: items that wait for a
    next attempt. The outbox counts what is unpublished; dead letters are a part of that. `outbox_oldest_due_seconds`: for how
    long the event that is due the longest has been due, 0 when none is. `canary_seconds`: for queues that ever had a canary, for
    how long the last one has waited for its answer, 0 when it has it.
    """

    holds: dict[str, Hold]
    oldest_seconds: dict[str, float]
    retrying: dict[str, int]
    outbox_pending: int
    outbox_dead_letters: int
    outbox_oldest_due_seconds: float
    canary_seconds: dict[str, float]


async def read_database_view(connection: Connection, queues: Sequence[str]) -> DatabaseView:
    """Four statements over live tasks and unpublished events; what is finished costs nothing."""
    rows = {row["queue"]: row for row in await connection.fetch(sql("health/oldest_waiting"), list(queues))}
    outbox = await connection.fetchrow(sql("outbox/counts"))
    assert outbox is not None  # an aggregate has a row
    due: float = await connection.fetchval(sql("outbox/oldest_due"), list(PRIORITY_NAMES))
    canaries = await connection.fetch(sql("canaries/ages"), list(queues))
    return DatabaseView(
        {hold.queue: hold for hold in await list_holds(connection)},
        {queue: max(0.0, rows[queue]["oldest_seconds"] or 0.0) if queue in rows else 0.0 for queue in queues},
        {queue: int(rows[queue]["retrying"]) if queue in rows else 0 for queue in queues},
        outbox["pending"],
        outbox["dead_lettered"],
        due,
        {row["queue"]: row["age_seconds"] for row in canaries},
    )


async def read_revision(connection: Connection) -> str | None:
    """The revision that the database is at; None when it was never migrated."""
    if not await connection.fetchval(sql("health/is_migrated")):
        return None
    revision: str | None = await connection.fetchval(sql("health/revision"))
    return revision
