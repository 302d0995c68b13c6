"""Claims the items that jobs name. What cannot be claimed needs no work: its job is acknowledged and dropped."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lingxi.broker.job import is_canary
from lingxi.broker.queue import Delivery
from lingxi.db.session import is_unavailable
from lingxi.observability import failpoints
from lingxi.observability.logging import get_logger
from lingxi.processors.contract import Processor
from lingxi.services.answer_canary import answer_canary
from lingxi.services.claim_items import ItemKey, claim_items, existing_items
from lingxi.services.release_unanswered import release_unanswered
from lingxi.worker.config import WorkerConfig
from lingxi.worker.executor import Executor
from lingxi.worker.job import NewerPayload, parse_job
from lingxi.worker.ledger import Ledger
from lingxi.worker.photo_jobs import PhotoJobs
from lingxi.worker.settler import Fate, Later
from lingxi.worker.store import Store
from lingxi.worker.ward import Ward

PARK_SECONDS = 5.0  # a job of a newer version is kept from other old workers for so long, then given back
HELD_SECONDS = 1.0  # the job of an item that waits for a cap or a paused queue comes back after so long, half more or less
_log = get_logger("worker.claimer")


class Claimer:
    """`settle(fate, deliveries)` is told what becomes of jobs that start nothing, `again(delivery)` of suspects that may
    try once more."""

    def __init__(
        self,
        config: WorkerConfig,
        ledger: Ledger,
        store: Store,
        processor: Processor[Any] | None,
        executor: Executor | None,
        ward: Ward,
        settle: Callable[[Fate | Later, Sequence[Delivery]], None],
        again: Callable[[Delivery], None],
        photos: PhotoJobs | None,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._store = store
        self._processor = processor
        self._executor = executor
        self._ward = ward
        self._settle = settle
        self._again = again
        self._photos = photos
        self._unanswered = False

    async def work(self, batch: list[Delivery]) -> None:
        """Start what can be claimed; raises when the batch must be tried again."""
        wanted = self._sort([delivery for delivery in batch if not is_canary(delivery.job_id)])
        if wanted:
            await self._start(wanted)
        if canaries := [delivery for delivery in batch if is_canary(delivery.job_id)]:
            async with self._store.connection() as connection:
                await failpoints.reach("worker.before_canary")
                await answer_canary(connection, self._ledger.queue, self._config.name)
            self._settled(Fate.DONE, canaries)

    async def _start(self, wanted: dict[ItemKey, Delivery]) -> None:
        claimed: set[ItemKey] = set()
        if self._processor is not None and self._executor is not None:
            claimed = await self._claim(wanted, self._processor, self._executor)
        missing = [key for key in wanted if key not in claimed]
        if missing:
            await self._look_at(missing, wanted)

    def _sort(self, batch: Sequence[Delivery]) -> dict[ItemKey, Delivery]:
        """Jobs by the item that they name. A second job for an item is dropped; what names none is not ours."""
        wanted: dict[ItemKey, Delivery] = {}
        for delivery in batch:
            if delivery.job_id not in self._ledger.unclaimed:
                continue  # started or settled by an earlier try of this batch
            try:
                if self._photos is not None and self._photos.take(delivery):
                    self._ledger.unclaimed.discard(delivery.job_id)
                    continue
                key = parse_job(delivery.data)
            except NewerPayload as newer:
                _log.warning(
                    "job_newer", queue=self._ledger.queue, job_id=delivery.job_id, version=newer.args[0]
                )
                self._park(delivery)
                continue
            if key is None:
                self._settled(Fate.FOREIGN, [delivery])
            elif key in wanted:
                self._settled(Fate.DONE, [delivery])
            else:
                wanted[key] = delivery
        return wanted

    async def _claim(
        self, wanted: dict[ItemKey, Delivery], processor: Processor[Any], executor: Executor
    ) -> set[ItemKey]:
        await failpoints.reach("worker.before_claim")
        time_limit = processor.time_limit_seconds
        admitted = self._ward.enter()
        try:
            async with self._store.connection() as connection:
                if self._unanswered:
                    released = await release_unanswered(
                        connection, list(wanted), worker=self._config.name, known=list(self._ledger.attempts)
                    )
                    self._unanswered = False
                    _log.info("claims_released", queue=self._ledger.queue, count=released)
                deadline = time.monotonic() + time_limit  # from before the claim: ours ends first
                claims = await claim_items(
                    connection,
                    self._ledger.queue,
                    list(wanted),
                    worker=self._config.name,
                    lease_seconds=self._config.lease_seconds,
                    time_limit_seconds=time_limit,
                    suspects=1 if admitted else 0,
                )
        except Exception as error:
            self._unanswered = self._unanswered or is_unavailable(error)  # it may have been committed
            if admitted:
                self._ward.leave()
            raise
        if admitted and not any(claim.suspect for claim in claims):
            self._ward.leave()
        await failpoints.reach("worker.after_claim")
        claimed = {claim.key for claim in claims}
        self._ledger.unclaimed.difference_update(wanted[key].job_id for key in claimed)
        executor.start([(claim, wanted[claim.key]) for claim in claims], deadline)
        return claimed

    async def _look_at(self, missing: Sequence[ItemKey], wanted: dict[ItemKey, Delivery]) -> None:
        """Items that could not be claimed: final, cancelled, running elsewhere, not due; or there is none like that."""
        async with self._store.connection() as connection:
            existing = await existing_items(connection, self._ledger.queue, missing)
        for key in missing:
            if key not in existing:
                self._settled(Fate.FOREIGN, [wanted[key]])
            elif self._processor is None:
                self._park(wanted[key])  # somebody submitted it: another version has a processor
            elif existing[key] == "suspect":
                self._ward.wait(partial(self._again, wanted[key]))
            elif existing[key] == "held":
                wait_seconds = HELD_SECONDS * random.uniform(0.5, 1.5)
                self._settled(Later(time.monotonic() + wait_seconds, charged=False), [wanted[key]])
            else:
                self._settled(Fate.DONE, [wanted[key]])

    def _settled(self, fate: Fate | Later, deliveries: Sequence[Delivery]) -> None:
        self._ledger.unclaimed.difference_update(delivery.job_id for delivery in deliveries)
        self._settle(fate, deliveries)

    def _park(self, delivery: Delivery) -> None:
        self._ledger.unclaimed.discard(delivery.job_id)
        asyncio.get_running_loop().call_later(PARK_SECONDS, self._settle, Fate.BACK, [delivery])
