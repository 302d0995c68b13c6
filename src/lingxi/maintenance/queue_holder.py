"""Carries the holds of queues, which are rows, over to BullMQ's own pause, and back after a wipe; and sees when one is drained.

PostgreSQL holds a paused queue by itself: the dispatcher sends nothing, and no claim succeeds. BullMQ's pause saves workers from
taking jobs in vain. So it does no harm when it comes a moment later, or is lost with Redis until the next look.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from lingxi.broker.client import RedisClient
from lingxi.broker.pauses import paused_queues
from lingxi.broker.queue import QueueCounts
from lingxi.db.session import Pool, transaction
from lingxi.maintenance.loop import Loop
from lingxi.observability import failpoints
from lingxi.services.queue_holds import Hold, list_holds, mark_drained


class PausableQueue(Protocol):
    """What the holder needs of a queue."""

    async def pause(self) -> None: ...
    async def resume(self) -> None: ...
    async def counts(self) -> QueueCounts: ...


@dataclass(slots=True)
class QueueHolder(Loop):
    """The loop. PostgreSQL is asked every round, Redis when something changed and every `check_seconds`."""

    name: ClassVar = "queue_holds"

    pool: Pool
    client: RedisClient
    queues: Mapping[str, PausableQueue]
    interval_seconds: float = 2.0
    check_seconds: float = 30.0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _applied: set[str] | None = None
    _check_due: float = 0.0

    async def done_once(self) -> dict[str, int]:
        """See `Loop.done_once`."""
        async with self.pool.acquire() as connection:
            holds = await list_holds(connection)
        drained = [hold.queue for hold in holds if hold.state == "draining" and await self._drained(hold)]
        wanted = {hold.queue for hold in holds if hold.state == "paused"} | {*drained}
        paused = resumed = 0
        if wanted != self._applied or time.monotonic() >= self._check_due:
            paused, resumed = await self._apply(wanted)
            self._applied, self._check_due = wanted, time.monotonic() + self.check_seconds
        return {"paused": paused, "resumed": resumed, "drained": len(drained)}

    async def _drained(self, hold: Hold) -> bool:
        """Nothing of it is in Redis or runs: it is paused from now on. What Redis lost stays in PostgreSQL, and is sent later."""
        queue = self.queues.get(hold.queue)
        if queue is None or hold.runs:
            return False
        counts = await queue.counts()
        if counts.waiting + counts.active + counts.delayed:
            return False
        async with transaction(self.pool) as connection:
            return await mark_drained(connection, hold)

    async def _apply(self, wanted: set[str]) -> tuple[int, int]:
        there = await paused_queues(self.client, list(self.queues))
        to_pause, to_resume = (wanted & set(self.queues)) - there, there - wanted
        for name in to_pause:
            await self.queues[name].pause()
        for name in to_resume:
            await self.queues[name].resume()
        if to_pause or to_resume:
            await failpoints.reach("holds.after_apply")
        return len(to_pause), len(to_resume)
