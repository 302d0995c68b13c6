"""Jobs of first publications: one row of photo_jobs each, owned by one worker at a time.

The way of a job: claim its row (pending → active, one attempt more), publish the photo, and commit what became of it,
guarded by the attempt that was claimed; only then is the job in Redis settled. A failure that may pass puts the row back
and delays the job; the last attempt, or a failure that cannot pass, ends both the row and the photo.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from lingxi.broker.hints import Hints
from lingxi.broker.queue import Delivery
from lingxi.db.session import Connection, is_conflict, is_unavailable
from lingxi.domain.errors import ItemError, Permanent, Transient
from lingxi.names import PHOTO_ATTEMPTS, PHOTO_QUEUE
from lingxi.observability import failpoints, tracing
from lingxi.observability.kept_lines import keep_lines
from lingxi.observability.logging import get_logger
from lingxi.observability.tallies import Tallies
from lingxi.processors.publish import PublishDeps, Published, process_photo
from lingxi.services.photo_jobs import (
    PhotoClaim,
    claim_photo_job,
    fail_photo_job,
    finish_photo_job,
    look_at_photo_job,
    put_back_photo_job,
    renew_photo_jobs,
)
from lingxi.worker.config import WorkerConfig
from lingxi.worker.job import PhotoKey, parse_photo_job
from lingxi.worker.ledger import Ledger
from lingxi.worker.outage import Outage, pause_seconds
from lingxi.worker.settler import Fate, Later
from lingxi.worker.store import Store
from lingxi.worker.traced import begin_photo_attempt

_AGAIN_SECONDS = 1.0  # until a job comes back that met an outage of PostgreSQL, uncharged
T = TypeVar("T")
_log = get_logger("worker.photo_jobs")


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The attempt ended without a verdict on the photo: the worker stops, PostgreSQL was away, or the lease was lost."""


Happening = Published | ItemError | GivenBack


@dataclass(slots=True, eq=False)
class _Running:
    claim: PhotoClaim
    task: asyncio.Task[None]
    deadline: float  # of time.monotonic(): no lease is renewed past it
    publishing: bool = False


class PhotoJobs:
    """`settle(fate, delivery)` is told once for each job that was taken, `count(state)` of each that ended."""

    def __init__(
        self,
        config: WorkerConfig,
        ledger: Ledger,
        store: Store,
        hints: Hints,
        postgres: Outage,
        deps: PublishDeps,
        settle: Callable[[Fate | Later, Delivery], None],
        count: Callable[[str], None],
        tallies: Tallies,
    ) -> None:
        self._config, self._ledger, self._store, self._hints = config, ledger, store, hints
        self._postgres, self._deps = postgres, deps
        self._settle, self._count, self._tallies = settle, count, tallies
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[_Running] = set()
        self.counts: Counter[str] = (
            Counter()
        )  # published, already, skipped, retried, failed, given_back, superseded

    def take(self, delivery: Delivery) -> bool:
        """Begin with a job; False when it is no job of a photo. Raises NewerPayload."""
        key = parse_photo_job(delivery.data)
        if key is None:
            return False
        task = asyncio.get_running_loop().create_task(self._work(delivery, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def watch(self) -> None:
        """Until cancelled: renew the leases, and stop work on photos that somebody else has by now."""
        while True:
            await asyncio.sleep(self._config.lease_renew_seconds)
            held = [running for running in self._running if time.monotonic() < running.deadline]
            if not held:
                continue
            try:
                async with self._store.connection() as connection:
                    owned = await renew_photo_jobs(connection, [running.claim for running in held])
            except Exception as error:
                if not is_unavailable(error):
                    _log.error("photo_leases_not_renewed", exc_info=error)
                continue
            for running in held:
                if running.claim.photo_id not in owned and running.publishing:
                    _log.warning("photo_lease_lost", photo_id=str(running.claim.photo_id))
                    running.task.cancel()

    async def stop(self, grace_seconds: float) -> None:
        """Let what runs finish within the grace; then cancel it, which kills its decoder, and give it back."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        for running in self._running:
            if running.publishing:
                running.task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._config.cancel_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late)

    # ── one job ──────────────────────────────────────────────────────────────────────────────────────────
    async def _work(self, delivery: Delivery, key: PhotoKey) -> None:
        fate: Fate | Later = Fate.BACK
        try:
            fate = await self._fate_of(delivery, key)
        except asyncio.CancelledError:
            pass  # it could not be written down in time; the sweep will find the row
        except Exception as error:
            _log.error("photo_job_lost", photo_id=str(key.photo_id), exc_info=error)
            fate = Fate.DONE  # the sweep revives it
        self._settle(fate, delivery)

    async def _fate_of(self, delivery: Delivery, key: PhotoKey) -> Fate | Later:
        if self._ledger.stopping:
            return Fate.BACK
        began_at = time.monotonic()
        claim = await self._claim(key.photo_id)
        if claim is None:
            return await self._fate_of_unclaimed(key.photo_id)
        task = asyncio.current_task()
        assert task is not None
        running = _Running(claim, task, time.monotonic() + self._config.photo_time_limit_seconds)
        self._running.add(running)
        happening: Happening | None = None
        span = begin_photo_attempt(delivery, claim)
        lines = keep_lines()
        self._ledger.photos[claim.fence] = claim
        try:
            await failpoints.reach("photo.after_claim")
            with tracing.within(span):
                happening = await self._publish(running, delivery)
            if happening == "published":
                seconds = claim.age_seconds + time.monotonic() - began_at
                self._tallies.observe("lingxi_photo_publish_seconds", seconds=seconds)
            return await self._end(delivery, key, claim, happening, lines)
        finally:
            self._running.discard(running)
            self._ledger.photos.pop(claim.fence, None)
            tracing.end(span, failed=happening.code if isinstance(happening, ItemError) else None)

    async def _claim(self, photo_id: UUID) -> PhotoClaim | None:
        """A claim that was not answered may have been committed: asked again, it is found."""
        asked = 0

        async def claim(connection: Connection) -> PhotoClaim | None:
            nonlocal asked
            asked += 1
            return await claim_photo_job(connection, photo_id, self._config.name, again=asked > 1)

        return await self._insist(claim)

    async def _fate_of_unclaimed(self, photo_id: UUID) -> Fate | Later:
        """Final, running elsewhere, or not due yet by PostgreSQL's time; or there is no such photo."""
        seen = await self._insist(lambda connection: look_at_photo_job(connection, photo_id))
        if seen is None:
            return Fate.FOREIGN
        if seen.state == "pending":
            return Later(time.monotonic() + seen.due_in_seconds, charged=False)
        return Fate.DONE

    async def _publish(self, running: _Running, delivery: Delivery) -> Happening:
        claim = running.claim
        # All attempts were lost with their workers: this photo must not kill another.
        if claim.attempt > PHOTO_ATTEMPTS:
            return Permanent("worker_lost")
        enqueued_at = datetime.fromtimestamp(delivery.timestamp_ms / 1000, UTC)
        running.publishing = not self._ledger.stopping
        if not running.publishing:
            return GivenBack()
        timer = asyncio.timeout(running.deadline - time.monotonic())
        try:
            async with timer:
                return await process_photo(claim.photo_id, self._deps, enqueued_at=enqueued_at)
        except asyncio.CancelledError:
            running.task.uncancel()
            return GivenBack()
        except ItemError as error:
            return error
        except Exception as error:
            return Transient("deadline_exceeded") if timer.expired() else self._raised(claim, error)
        finally:
            running.publishing = False

    def _raised(self, claim: PhotoClaim, error: Exception) -> Happening:
        if is_unavailable(error):
            self._postgres.began(error)
            return GivenBack()
        if is_conflict(error):
            return GivenBack()
        _log.error("photo_attempt_raised", photo_id=str(claim.photo_id), exc_info=error)
        return Transient("internal_error")

    # ── what becomes of it ───────────────────────────────────────────────────────────────────────────────
    async def _end(
        self,
        delivery: Delivery,
        key: PhotoKey,
        claim: PhotoClaim,
        happening: Happening,
        lines: Sequence[str],
    ) -> Fate | Later:
        if isinstance(happening, ItemError):
            return await self._failed(delivery, key, claim, happening, lines)
        if isinstance(happening, GivenBack):
            ours = await self._put_back(claim, None, 0.0, lines, charged=False)
            self.counts["given_back" if ours else "superseded"] += 1
            if not ours:
                return Fate.DONE
            stopping = self._ledger.stopping
            return Fate.BACK if stopping else Later(time.monotonic() + _AGAIN_SECONDS, charged=False)
        if happening == "published":
            self._hints.publish_outbox()
            self._hints.publish_albums([key.album_id])
        await failpoints.reach("photo.before_done")
        ours = await self._insist(lambda connection: finish_photo_job(connection, claim))
        await failpoints.reach("photo.after_done")
        self.counts[happening if ours else "superseded"] += 1
        if ours:
            self._count("succeeded")
        return Fate.DONE

    async def _failed(
        self, delivery: Delivery, key: PhotoKey, claim: PhotoClaim, error: ItemError, lines: Sequence[str]
    ) -> Fate | Later:
        # BullMQ counts an attempt when it is over, PostgreSQL when it begins; either may have forgotten some.
        attempt = max(delivery.attempts_made + 1, claim.attempt)
        last = attempt >= PHOTO_ATTEMPTS or not error.retryable
        _log.warning(
            "photo_attempt_failed",
            photo_id=str(claim.photo_id), code=error.code, reason=error.message, attempt=attempt, last=last,
        )  # fmt: skip
        self._tallies.count("lingxi_item_failures_total", PHOTO_QUEUE, error.code)
        if last:
            ours = await self._insist(
                lambda connection: fail_photo_job(connection, claim, error.code, list(lines))
            )
            self.counts["failed" if ours else "superseded"] += 1
            if ours:
                self._hints.publish_albums([key.album_id])
                self._count("failed")
            return Fate.DONE
        seconds = self._config.photo_backoff_seconds * 2.0 ** (attempt - 1)
        seconds = seconds if error.retry_after is None else error.retry_after
        ours = await self._put_back(claim, error.code, seconds, lines, charged=True)
        self.counts["retried" if ours else "superseded"] += 1
        return Later(time.monotonic() + seconds, error.code, charged=True) if ours else Fate.DONE

    async def _put_back(
        self, claim: PhotoClaim, code: str | None, seconds: float, lines: Sequence[str], *, charged: bool
    ) -> bool:
        return await self._insist(
            lambda connection: put_back_photo_job(
                connection,
                claim,
                error=code,
                retry_after_seconds=seconds,
                charged=charged,
                lines=list(lines),
            )
        )

    async def _insist(self, step: Callable[[Connection], Awaitable[T]]) -> T:
        """Do one transaction, again and again while PostgreSQL is away: nothing is settled before its commit."""
        failures = 0
        while True:
            try:
                async with self._store.connection() as connection, connection.transaction():
                    return await step(connection)
            except Exception as error:
                if is_unavailable(error):
                    self._postgres.began(error)
                elif not is_conflict(error):
                    raise
                failures += 1
            await asyncio.sleep(pause_seconds(failures))
