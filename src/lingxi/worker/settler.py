"""The last stage: tells Redis what became of jobs. An acknowledgement brings the next job along."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from lingxi.broker.job import is_canary
from lingxi.broker.queue import BullQueue, Delivery
from lingxi.names import FOREIGN_JOB
from lingxi.observability import failpoints
from lingxi.observability.logging import get_logger
from lingxi.worker.ledger import Ledger
from lingxi.worker.outage import Outage

_log = get_logger("worker.settler")


class Fate(Enum):
    """What becomes of a job."""

    DONE = "done"  # acknowledged: committed, or there was nothing to do
    BACK = "back"  # given back for somebody else, uncharged
    FOREIGN = "foreign"  # kept as failed: it names no item of this queue


@dataclass(frozen=True, slots=True)
class Later:
    """The job comes back when time.monotonic() is `due_at`. `charged`: an attempt failed, because of `reason`."""

    due_at: float
    reason: str = ""
    charged: bool = True


class Settler:
    """`arrived(deliveries)` is told of the jobs that acknowledgements brought."""

    def __init__(
        self, ledger: Ledger, queue: BullQueue, redis: Outage, arrived: Callable[[Sequence[Delivery]], None]
    ) -> None:
        self._ledger = ledger
        self._queue = queue
        self._redis = redis
        self._arrived = arrived

    async def work(self, batch: list[tuple[Fate | Later, Delivery]]) -> None:
        """Raises BrokerUnavailable when the batch must be settled again, which does no harm."""
        if done := [delivery for fate, delivery in batch if fate is Fate.DONE]:
            # A canary may have come beside a full house: it makes no room for another job.
            canaries = [delivery for delivery in done if is_canary(delivery.job_id)]
            others = [delivery for delivery in done if not is_canary(delivery.job_id)] if canaries else done
            await self._queue.finish_many(canaries, fetch_next=False)
            self._ledger.dropped(canaries)
            brought = await self._queue.finish_many(others, fetch_next=self._ledger.takes)
            self._ledger.dropped(others)
            self._arrived(brought)
            await failpoints.reach("worker.after_ack")
        for fate, delivery in batch:
            if isinstance(fate, Later):
                delay_ms = math.ceil((fate.due_at - time.monotonic()) * 1000)
                await self._queue.retry_later(delivery, delay_ms, reason=fate.reason, charged=fate.charged)
                self._ledger.dropped([delivery])
            elif fate is Fate.FOREIGN:
                _log.warning("job_foreign", queue=self._ledger.queue, job_id=delivery.job_id)
                await self._queue.fail(delivery, FOREIGN_JOB)
                self._ledger.dropped([delivery])
        if back := [delivery for fate, delivery in batch if fate is Fate.BACK]:
            await self._queue.give_back(back)
            self._ledger.dropped(back)
        self._redis.ended()
