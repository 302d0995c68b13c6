"""The consume loop of one queue: takes jobs while there is room, and shows by a heartbeat that it still turns."""

import asyncio
import time
from collections.abc import Callable, Sequence

from lingxi.broker.canaries import Canaries
from lingxi.broker.errors import BrokerError, BrokerUnavailable
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.job import is_canary
from lingxi.broker.queue import BullQueue, Delivery
from lingxi.observability.logging import get_logger
from lingxi.worker.config import WorkerConfig
from lingxi.worker.ledger import Ledger
from lingxi.worker.outage import Outage, pause_seconds

_MOST_AT_ONCE = 100
_LONGEST_WAIT_SECONDS = 5.0
_log = get_logger("worker.intake")


class Intake:
    """`arrived(deliveries)` is told of the jobs that were taken."""

    def __init__(
        self,
        config: WorkerConfig,
        ledger: Ledger,
        queue: BullQueue,
        heartbeats: Heartbeats,
        canaries: Canaries,
        redis: Outage,
        arrived: Callable[[Sequence[Delivery]], None],
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._queue = queue
        self._heartbeats = heartbeats
        self._canaries = canaries
        self._redis = redis
        self._arrived = arrived
        self._beat_due = 0.0
        self._stalled_due = 0.0

    async def run(self) -> None:
        """Until cancelled, or until the ledger says that the worker stops."""
        failures = 0
        while not self._ledger.stopping:
            try:
                await self._turn()
                self._redis.ended()
                failures = 0
            except BrokerUnavailable as error:
                self._redis.began(error)
                failures += 1
            except BrokerError as error:  # another client broke the queue, in a way that is not known
                _log.error("intake_failed", queue=self._ledger.queue, reason=str(error)[:300])
                failures += 1
            except Exception as error:
                _log.error("intake_failed", queue=self._ledger.queue, exc_info=error)
                failures += 1
            if failures:
                await asyncio.sleep(pause_seconds(failures))

    async def _turn(self) -> None:
        if self._ledger.quiet:  # without a heartbeat: it serves nobody
            self._ledger.room.clear()
            await self._wait_for_room(_LONGEST_WAIT_SECONDS)
            return
        await self._tend()
        wait_seconds = min(_LONGEST_WAIT_SECONDS, max(0.01, self._beat_due - time.monotonic()))
        wanted = min(self._ledger.free, _MOST_AT_ONCE)
        if wanted <= 0:
            self._ledger.room.clear()
            await self._take_canary()
            await self._wait_for_room(wait_seconds)
            return
        taken = await self._queue.take(wanted)
        self._arrived(taken)
        if len(taken) < wanted:
            await self._queue.wait_for_work(wait_seconds)
            if self._ledger.free <= 0:  # acknowledgements brought jobs meanwhile
                await self._queue.pass_on()

    async def _wait_for_room(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._ledger.room.wait()
        except TimeoutError:
            pass

    async def _take_canary(self) -> None:
        """With no room for work there is room for one canary: a worker whose places are all busy with long items does work."""
        if any(map(is_canary, self._ledger.deliveries)) or not await self._canaries.is_next(
            self._ledger.queue
        ):
            return
        taken = await self._queue.take(1)
        self._arrived([delivery for delivery in taken if is_canary(delivery.job_id)])
        await self._queue.give_back([delivery for delivery in taken if not is_canary(delivery.job_id)])

    async def _tend(self) -> None:
        now = time.monotonic()
        if now >= self._beat_due:
            await self._heartbeats.beat(self._ledger.queue, self._config.name, canaries=True)
            self._beat_due = now + self._config.heartbeat_seconds
        if now >= self._stalled_due:
            self._stalled_due = now + self._config.stalled_check_seconds
            if recovered := await self._queue.recover_stalled():
                _log.info("stalled_recovered", queue=self._ledger.queue, count=recovered)
