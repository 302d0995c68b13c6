"""A step of the pipeline: it takes all that is ready as one batch, while the next batch gathers.

So batches are as large as the load makes them, and nobody waits on purpose for one to fill.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from lingxi.broker.errors import BrokerError, BrokerUnavailable
from lingxi.db.session import is_conflict, is_unavailable
from lingxi.observability.logging import get_logger
from lingxi.worker.outage import Outage, pause_seconds

T = TypeVar("T")
_log = get_logger("worker.stage")


class Stage(Generic[T]):
    """`work(batch)` must be safe to do again: a batch that failed comes back whole, with what has gathered meanwhile."""

    def __init__(
        self,
        name: str,
        work: Callable[[list[T]], Awaitable[None]],
        postgres: Outage,
        redis: Outage,
        limit: int = 250,
    ) -> None:
        self.name = name
        self._work = work
        self._limit = limit
        self._postgres, self._redis = postgres, redis
        self._waiting: deque[T] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, items: Iterable[T]) -> None:
        """More to do."""
        self._waiting.extend(items)
        if self._waiting:
            self._idle.clear()
            self._some.set()

    def take_back(self) -> list[T]:
        """What is not being worked on now, and then never will be."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    async def wait_idle(self) -> None:
        """Until nothing waits and nothing is being worked on."""
        await self._idle.wait()

    async def run(self) -> None:
        """Work until cancelled. Survives every error of `work`; an outage is waited out in silence."""
        failures = 0
        while True:
            if not self._waiting:
                self._idle.set()
                self._some.clear()
                await self._some.wait()
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._limit))]
            if not batch:
                continue
            try:
                await self._work(batch)
                failures = 0
            except Exception as error:
                self._waiting.extendleft(reversed(batch))
                failures += 1
                self._tell(error)
                await asyncio.sleep(pause_seconds(failures))

    def _tell(self, error: Exception) -> None:
        if isinstance(error, BrokerUnavailable):
            self._redis.began(error)
        elif is_unavailable(error):
            self._postgres.began(error)
        elif is_conflict(error):
            _log.info("batch_conflicted", stage=self.name, reason=str(error)[:300])
        elif isinstance(error, BrokerError):  # another client broke the queue
            _log.error("batch_failed", stage=self.name, reason=str(error)[:300])
        else:
            _log.error("batch_failed", stage=self.name, exc_info=error)
