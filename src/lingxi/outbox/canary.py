"""Sends a canary through each queue that has workers, now and then: a worker that beats and does not work is seen by its silence.

The way of a canary is that of any job: it is added by this dispatcher, taken from Redis by a worker, answered in PostgreSQL by a
commit, acknowledged. It has no item and no event, so it changes no gauge and no counter but its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from lingxi.broker.canaries import Canaries
from lingxi.broker.client import RedisClient
from lingxi.broker.errors import BrokerUnavailable
from lingxi.broker.job import canary_job
from lingxi.db.query import sql
from lingxi.db.session import Connection, is_unavailable
from lingxi.observability import failpoints
from lingxi.observability.logging import get_logger
from lingxi.outbox.sender import JobSender

log = get_logger("outbox.canary")


class CanarySender:
    """One dispatcher's; `interval_seconds` 0 sends none, and takes back what another setting has sent."""

    def __init__(
        self, client: RedisClient, sender: JobSender, queues: Sequence[str], interval_seconds: float
    ) -> None:
        self._canaries = Canaries(client)
        self._sender, self._queues, self._interval_seconds = sender, tuple(queues), interval_seconds
        self._due_at: float | None = 0.0  # of time.monotonic(); None: never again

    async def tick(self, connection: Connection) -> None:
        """Send what is due. Raises only what says that a server cannot serve now: then nothing was sent, and it is due still."""
        if self._due_at is None or time.monotonic() < self._due_at:
            return
        try:
            await self._send(connection)
        except Exception as error:
            if isinstance(error, BrokerUnavailable) or is_unavailable(error):
                raise
            log.error("canary_failed", error=f"{type(error).__name__}: {error}"[:300])
        self._due_at = time.monotonic() + self._interval_seconds if self._interval_seconds else None

    async def _send(self, connection: Connection) -> None:
        asked = await self._canaries.welcome(self._queues) if self._interval_seconds else []
        async with connection.transaction():
            unanswered = [row["queue"] for row in await connection.fetch(sql("canaries/waiting"))]
            await self._canaries.withdraw(self._queues)
            if silent := [queue for queue in unanswered if queue not in asked]:
                await connection.execute(sql("canaries/withdraw"), silent)
            for row in await connection.fetch(sql("canaries/send"), asked):
                await self._sender.add(row["queue"], canary_job(row["number"]))
                await failpoints.reach("outbox.after_canary")
