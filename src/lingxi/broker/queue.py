"""One physical BullMQ queue, driven by BullMQ's own scripts in pipelines.

Jobs are doorbells: PostgreSQL holds the truth. So nothing here keeps results, only jobs of photos are delayed, and a
script's "you no longer own this" (a lock that ran out, a job that is gone after a wipe) is an answer, not an error.

Every call raises BrokerUnavailable when Redis cannot serve now. It never retries by itself: whether a call that was cut
off was run is not known, and each caller knows best what is safe to do again. Adding is (ids dedupe), finishing is too.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import hiredis

from lingxi import names
from lingxi.broker.connection import ConnectionFactory, RawConnection
from lingxi.broker.errors import BrokerError, BrokerUnavailable, JobRejected
from lingxi.broker.job import (
    ITEM_OPTIONS,
    MAX_DATA_BYTES,
    REJECTIONS,
    Delivery,
    Job,
    QueueCounts,
    valid_job_id,
)
from lingxi.broker.link import Link
from lingxi.broker.mending import forget_half_added, mend, ringing
from lingxi.broker.replies import (
    bytes_of,
    delay_of,
    delivery_of,
    is_error,
    listed,
    now_ms,
    priority_of,
    raise_if_error,
    raise_if_unavailable,
    text_of,
    whole,
)
from lingxi.broker.resp import command
from lingxi.broker.scripts import loading
from lingxi.broker.templates import BULL_PREFIX, SCRIPT_NAMES, Templates
from lingxi.observability.logging import get_logger

__all__ = ["BullQueue", "Delivery", "Job", "QueueCounts", "valid_job_id"]

MAX_JOBS_PER_WRITE = 500
# PostgreSQL ends poison items by their attempts. BullMQ's own limit would fail jobs that were only unlucky in deploys.
MOST_STALLS = 1000
# The socket may be silent for longer than the server may block, or an idle worker goes deaf.
_BLOCK_MARGIN_SECONDS = 5.0
_log = get_logger("broker.queue")


class BullQueue:
    """The BullMQ queue behind `logical_name`. Two connections, opened when first needed: one for calls, one to wait."""

    def __init__(
        self,
        logical_name: str,
        connection_factory: ConnectionFactory,
        *,
        token: str,
        lock_ms: int = 60_000,
        stalled_check_ms: int = 15_000,
    ) -> None:
        """`token` names this process's boot and owns the locks.

        Over all workers there is at most one stalled check per `stalled_check_ms`.
        """
        physical = names.physical_queue(logical_name)
        self.logical_name = logical_name
        self._token = token
        self._templates = Templates(physical, token, lock_ms)
        self._stalled_check_ms = stalled_check_ms
        # BullMQ takes a client of this name for a worker of the queue; ours are those that wait for work.
        worker_name = f"{BULL_PREFIX}:{base64.b64encode(physical.encode()).decode()}:w:{token}"
        self._calls = Link(connection_factory, f"lingxi:{physical}:{token}")
        self._waits = Link(connection_factory, worker_name)
        self._next_delayed_ms = 0
        self._returning: set[asyncio.Future[None]] = set()

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────
    async def add_many(self, jobs: Sequence[Job], *, priority: int, timestamp_ms: int) -> None:
        """Add in order; a job whose id is still kept is left as it is. One write per 500 jobs.

        Raises JobRejected for the first job that cannot be added (others may have been), BrokerUnavailable.
        """
        as_last, add = (ITEM_OPTIONS, priority), self._templates.adder(priority, timestamp_ms)
        for start in range(0, len(jobs), MAX_JOBS_PER_WRITE):
            chunk = jobs[start : start + MAX_JOBS_PER_WRITE]
            calls = []
            for job in chunk:
                if not valid_job_id(job.id):
                    raise JobRejected(job.id, "not a job id")
                if len(job.data) > MAX_DATA_BYTES:
                    raise JobRejected(job.id, f"{len(job.data)} bytes of data, at most {MAX_DATA_BYTES}")
                own = priority if job.priority is None else job.priority
                if (job.options, own) != as_last:
                    as_last, add = (job.options, own), self._templates.adder(own, timestamp_ms, job.options)
                calls.append(add(job.id.encode(), job.data))
            for job, reply in zip(chunk, await self._run(calls), strict=True):
                if isinstance(reply, hiredis.ReplyError):
                    await self.mend(str(reply))
                    await forget_half_added(self._plain, self._templates.prefix, job.id.encode())
                    raise JobRejected(job.id, str(reply))
                if isinstance(reply, int) and reply < 0:
                    raise JobRejected(job.id, REJECTIONS.get(reply, f"code {reply}"))

    # ── taking and finishing ─────────────────────────────────────────────────────────────────────────────
    async def take(self, limit: int) -> list[Delivery]:
        """Up to `limit` waiting jobs become ours. One round trip, or two when there is more than one job."""
        return await self._never_lost(self._take(limit)) if limit > 0 else []

    async def _take(self, limit: int) -> list[Delivery]:
        one = self._templates.take(now_ms())
        reply, *lengths = await self._run([one], then=self._templates.lengths, then_count=3)
        taken = await self._sorted_out([reply, *filter(is_error, lengths)])
        if any(map(is_error, lengths)):
            return taken
        # As many as there are and no more: each call in vain rings the bell for another idle worker.
        more = min(limit - 1, whole(lengths[0]) + whole(lengths[1])) if taken else 0
        if more > 0:
            taken += await self._sorted_out(await self._run([one] * more))
        return taken

    async def finish_many(self, deliveries: Sequence[Delivery], *, fetch_next: bool) -> list[Delivery]:
        """Acknowledge: the jobs are gone. With `fetch_next` each that was still ours may bring the next job.

        A job that is no longer ours is skipped: its item's fence in PostgreSQL has decided already.
        """
        if not deliveries:
            return []
        finish = self._templates.completer(now_ms(), fetch_next=fetch_next)
        job_ids = [bytes_of(d.job_id) for d in deliveries]
        finishing = self._finish([finish(job_id) for job_id in job_ids], job_ids)
        return await self._never_lost(finishing) if fetch_next else await finishing

    async def _finish(self, calls: Sequence[bytes], job_ids: Sequence[bytes]) -> list[Delivery]:
        replies = await self._run(calls)
        return await self._sorted_out(replies, *_failed(job_ids, replies))

    async def _never_lost(self, fetching: Coroutine[Any, Any, list[Delivery]]) -> list[Delivery]:
        """Jobs that arrive for a caller who was cancelled meanwhile go back at once, not when their lock runs out."""
        task = asyncio.ensure_future(fetching)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            returning = asyncio.ensure_future(self._return(task))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            raise

    async def _return(self, task: asyncio.Task[list[Delivery]]) -> None:
        with contextlib.suppress(BrokerError):
            await self.give_back(await task)

    async def fail(self, delivery: Delivery, reason: str) -> None:
        """The job failed for good and stays to be seen (at most 1,000 of them): for jobs that are not ours to do."""
        fail = self._templates.failer(now_ms(), reason.encode())
        job_id = bytes_of(delivery.job_id)
        await self._sorted_out(await self._run([fail(job_id)]), job_id)

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put jobs back to the front of the queue, and wake somebody for them."""
        if not deliveries:
            return
        job_ids = [bytes_of(d.job_id) for d in deliveries]
        calls = [self._templates.give_back(job_id) for job_id in job_ids]
        # BullMQ's script rings only for jobs of the wait list, not for prioritized ones.
        replies = await self._run(calls, then=self._templates.ring, then_count=1)
        await self._sorted_out(replies, *_failed(job_ids, replies[:-1]))

    async def retry_later(
        self, delivery: Delivery, delay_ms: int, *, reason: str = "", charged: bool = True
    ) -> None:
        """Let the job come back after `delay_ms`, as BullMQ does with an attempt that failed because of `reason`.

        Not `charged`: no attempt was made. Nothing happens to a job that is no longer ours.
        """
        job_id, delay_ms = bytes_of(delivery.job_id), max(0, delay_ms)
        call = self._templates.retry_later(job_id, now_ms(), delay_ms, reason.encode(), charged=charged)
        await self._sorted_out(await self._run([call]), job_id)

    # ── locks ────────────────────────────────────────────────────────────────────────────────────────────
    async def extend_locks(self, deliveries: Sequence[Delivery]) -> list[str]:
        """Renew the locks; returns the job ids whose lock is lost (somebody else may have the job by now)."""
        if not deliveries:
            return []
        return await self._listed(self._templates.extend_locks([bytes_of(d.job_id) for d in deliveries]))

    async def recover_stalled(self) -> int:
        """Active jobs without a lock, seen so by two checks in a row, go back to the front. Returns how many."""
        call = self._templates.recover_stalled(
            now_ms(), most_stalls=MOST_STALLS, interval_ms=self._stalled_check_ms
        )
        return len(await self._listed(call))

    async def _listed(self, call: bytes) -> list[str]:
        (reply,) = await self._run([call])
        if is_error(reply):
            await self._sorted_out([reply])
            return []
        return [text_of(job_id) for job_id in listed(reply)]

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────
    async def wait_for_work(self, timeout_seconds: float) -> None:
        """Return when there may be work, at the latest after `timeout_seconds`. Call `take` after it in either case.

        If this is cancelled the connection is closed with it: the server must not ring into an ear that is gone.
        """
        connection = await self._waits.get()
        if self._next_delayed_ms:  # a job that another client delayed; the marker was already popped for it
            timeout_seconds = min(timeout_seconds, self._next_delayed_ms / 1000 - time.time())
            if timeout_seconds <= 0:
                return
        call = self._templates.wait(max(timeout_seconds, 0.001))  # 0 would mean: for ever
        try:
            (reply,) = await connection.call(call, timeout_seconds=timeout_seconds + _BLOCK_MARGIN_SECONDS)
        except asyncio.CancelledError:
            self._waits.drop()
            raise
        raise_if_unavailable(reply)
        if is_error(reply):
            await self._sorted_out([reply])

    async def pass_on(self) -> None:
        """A ring came and there is no room here: if jobs wait, wake another worker."""
        if await self.waiting():
            await self._sorted_out(await self._run([self._templates.ring]))

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────
    async def counts(self) -> QueueCounts:
        (reply,) = await self._run([self._templates.counts])
        wait, paused, prioritized, active, delayed, completed, failed = listed(reply)
        return QueueCounts(wait + paused + prioritized, active, delayed, completed, failed)

    async def waiting(self) -> int:
        """How many jobs wait, in any of BullMQ's three places."""
        return sum(whole(reply) for reply in await self._run([], then=self._templates.lengths, then_count=3))

    async def line(self) -> tuple[int, int | None]:
        """How many jobs wait, and the priority of the prioritized one that is first in line."""
        *lengths, first = await self._run([], then=self._templates.line, then_count=4)
        scored = listed(first)
        return sum(whole(length) for length in lengths), priority_of(scored)

    async def exist(self, job_ids: Sequence[str]) -> list[bool]:
        """Which of these jobs a worker has or will get. What Redis holds of the others goes: their ids are free again."""
        asked = [bytes_of(job_id) for job_id in job_ids]
        try:
            return await ringing(self._plain, self._templates.prefix, asked)
        except BrokerError as error:
            if isinstance(error, BrokerUnavailable) or not await self.mend(str(error)):
                raise
            return await ringing(self._plain, self._templates.prefix, asked)

    async def ping(self) -> None:
        """Raises BrokerUnavailable unless the server answers (on a connection of its own, if the last one is gone)."""
        raise_if_error((await self._run([command(b"PING")]))[0])

    # ── steering ─────────────────────────────────────────────────────────────────────────────────────────
    async def pause(self) -> None:
        """Nobody takes jobs of this queue until `resume`; what is active goes on."""
        whole((await self._run([self._templates.pause]))[0])

    async def resume(self) -> None:
        while whole((await self._run([self._templates.resume]))[0]) > 0:  # jobs in an old `paused` list
            pass

    async def close(self) -> None:
        """Close both connections. Jobs and rings that arrived for nobody are passed on, if they can still be."""
        try:
            await asyncio.gather(*self._returning)
            if self._waits.is_open:
                await self.pass_on()
        except BrokerError:
            pass  # every waiting worker looks by itself after its own time-out
        finally:
            await self._waits.close()
            await self._calls.close()

    # ── the wire ─────────────────────────────────────────────────────────────────────────────────────────
    async def _run(self, calls: Sequence[bytes], *, then: bytes = b"", then_count: int = 0) -> list[Any]:
        """Send script calls, and `then`, plain commands behind them, in one write.

        A script that the server forgot is loaded and its call sent again.
        Error replies that speak of the server are raised; those that speak of one call are returned in its place.
        """
        connection = await self._calls.get()
        replies = await connection.call(b"".join(calls) + then, len(calls) + then_count)
        forgotten = [i for i, reply in enumerate(replies) if is_error(reply, "NOSCRIPT")]
        if forgotten:
            await _load_scripts(connection)
            again = await connection.call(b"".join(calls[i] for i in forgotten), len(forgotten))
            for i, reply in zip(forgotten, again, strict=True):
                replies[i] = reply
        for reply in replies:
            raise_if_unavailable(reply)
        return replies

    async def _sorted_out(self, replies: Sequence[Any], *job_ids: bytes) -> list[Delivery]:
        """The jobs that came. A call that failed met something broken: it is removed, and `job_ids` with it.

        Raises BrokerError where nothing came and nothing broken was found.
        """
        taken: list[Delivery] = []
        error: hiredis.ReplyError | None = None
        for reply in replies:
            if isinstance(reply, list) and reply[0]:
                taken.append(delivery_of(reply[1], reply[0], self._token))
            elif isinstance(reply, list):
                self._next_delayed_ms = delay_of(reply[3])
            elif isinstance(reply, hiredis.ReplyError):
                error = reply  # else a whole number, and nothing to take
        if error is not None:
            try:
                mended = await self.mend(str(error), *job_ids)
            except BrokerUnavailable:
                mended = False  # what came is ours all the same
            if not mended and not taken:
                raise BrokerError(str(error))
        return taken

    async def mend(self, reason: str, *job_ids: bytes) -> bool:
        """Remove what makes BullMQ's scripts fail, and `job_ids`. False: there was nothing to remove."""
        mended = await mend(self._plain, self._templates.prefix, *job_ids)
        if mended:
            _log.error("queue_mended", queue=self.logical_name, reason=reason[:300], **mended.told())
        return bool(mended)

    async def _plain(self, calls: Sequence[bytes]) -> list[Any]:
        return await self._run([], then=b"".join(calls), then_count=len(calls)) if calls else []


def _failed(job_ids: Sequence[bytes], replies: Sequence[Any]) -> list[bytes]:
    return [job_id for job_id, reply in zip(job_ids, replies, strict=True) if is_error(reply)]


async def _load_scripts(connection: RawConnection) -> None:
    for reply in await connection.call(*loading(SCRIPT_NAMES)):
        raise_if_error(reply)
