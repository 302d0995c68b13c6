"""Queues that are held by hand: rows, so that a wiped Redis forgets none.

paused: nothing of it is sent, taken or claimed; what runs goes on. draining: nothing is sent any more; what was sent is still
taken and finished, and when nothing is left it is paused.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.wire import time_to_wire

HoldState = Literal["paused", "draining"]


@dataclass(frozen=True, slots=True)
class Hold:
    """`runs`: items or photos of the queue are still being worked on."""

    queue: str
    state: HoldState
    reason: str | None
    held_at: datetime
    runs: bool = False

    def to_wire(self) -> dict[str, Any]:
        """The `QueueHold` of the document."""
        return {"state": self.state, "reason": self.reason, "since": time_to_wire(self.held_at)}


async def hold_queue(connection: Connection, queue: str, state: HoldState, reason: str | None = None) -> Hold:
    """Again is the same; a queue that is paused is not drained any more."""
    row = await connection.fetchrow(sql("queue_holds/set"), queue, state, reason)
    assert row is not None
    return Hold(**dict(row))


async def resume_queue(connection: Connection, queue: str) -> bool:
    """False: it was not held."""
    return await connection.fetchval(sql("queue_holds/remove"), queue) is not None


async def list_holds(connection: Connection) -> list[Hold]:
    """By queue."""
    return [Hold(**dict(row)) for row in await connection.fetch(sql("queue_holds/list"))]


async def held_queues(connection: Connection) -> set[str]:
    """Queues to which nothing is sent."""
    return {row["queue"] for row in await connection.fetch(sql("queue_holds/names"))}


async def mark_drained(connection: Connection, hold: Hold) -> bool:
    """Nothing is left of a queue that was draining: it is paused. False: it was resumed meanwhile."""
    return await connection.fetchval(sql("queue_holds/drained"), hold.queue, hold.held_at) is not None
