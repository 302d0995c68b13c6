"""The sweep of photo jobs: at start and every 30 s it revives what a lost worker or a wiped Redis left behind.

Whatever it enqueues carries the photo's one job id, so a job that is there already stays the only one, and a job that rings in
vain is dropped by the worker who cannot claim the row.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Protocol

from lingxi.broker.job import Job, photo_job
from lingxi.db.session import Pool, transaction
from lingxi.maintenance.loop import Loop
from lingxi.observability import failpoints
from lingxi.services.clear_album import PHOTOS_A_STEP, albums_to_clear, clear_album
from lingxi.services.photo_jobs import due_photo_jobs, put_back_stale_photo_jobs

BATCH = 500
WAITING_LIMIT = 10_000


class PhotoQueue(Protocol):
    """What the sweep needs of the queue `photo:process`."""

    async def add_many(self, jobs: Sequence[Job], *, priority: int, timestamp_ms: int) -> None: ...
    async def exist(self, job_ids: Sequence[str]) -> list[bool]: ...
    async def waiting(self) -> int: ...


@dataclass(slots=True)
class PhotoSweepCounts:
    """What one sweep did: stale rows that are pending again, jobs that were enqueued, photos of deleted albums deleted."""

    put_back: int = 0
    enqueued: int = 0
    cleared: int = 0


@dataclass(slots=True)
class PhotoSweeper(Loop):
    """`sweep_once()`, and its loop. `waiting_limit`: jobs that may wait in Redis; the rest waits in PostgreSQL."""

    name: ClassVar = "photo_sweep"

    pool: Pool
    queue: PhotoQueue
    interval_seconds: float = 30.0
    waiting_limit: int = WAITING_LIMIT
    totals: PhotoSweepCounts = field(default_factory=PhotoSweepCounts)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def done_once(self) -> dict[str, int]:
        """See `Loop.done_once`."""
        return asdict(await self.sweep_once())

    async def sweep_once(self) -> PhotoSweepCounts:
        """Stale active rows are pending again, and all pending rows that are due have a job, as far as there is room."""
        counts = PhotoSweepCounts()
        try:
            await self._sweep(counts)
        finally:
            self.totals.put_back += counts.put_back
            self.totals.enqueued += counts.enqueued
            self.totals.cleared += counts.cleared
        return counts

    def found(self) -> dict[str, int]:
        """What all sweeps of this process did."""
        return asdict(self.totals)

    async def _sweep(self, counts: PhotoSweepCounts) -> None:
        while not self.stopping.is_set():
            async with transaction(self.pool) as connection:
                stale = await put_back_stale_photo_jobs(connection, limit=BATCH)
                await failpoints.reach("photo_sweep.before_commit")
            await failpoints.reach("photo_sweep.after_commit")
            counts.put_back += len(stale)
            if len(stale) < BATCH:
                break
        await self._clear_albums(counts)
        await self._enqueue_due(counts)

    async def _clear_albums(self, counts: PhotoSweepCounts) -> None:
        """What is left of deleted albums that were too big for one transaction."""
        async with self.pool.acquire() as connection:
            albums = await albums_to_clear(connection, limit=BATCH)
        for album_id in albums:
            while not self.stopping.is_set():
                async with transaction(self.pool) as connection:
                    count = await clear_album(connection, album_id)
                counts.cleared += count
                if count < PHOTOS_A_STEP:
                    break

    async def _enqueue_due(self, counts: PhotoSweepCounts) -> None:
        room = self.waiting_limit - await self.queue.waiting()
        after = None
        while room > 0 and not self.stopping.is_set():
            async with self.pool.acquire() as connection:
                due = await due_photo_jobs(connection, after=after, limit=BATCH)
            jobs = [photo_job(one.photo_id, one.album_id) for one in due]
            there = await self.queue.exist([job.id for job in jobs])
            missing = [job for job, is_there in zip(jobs, there, strict=True) if not is_there][:room]
            await self.queue.add_many(missing, priority=0, timestamp_ms=time.time_ns() // 1_000_000)
            if missing:
                await failpoints.reach("photo_sweep.after_add")
            counts.enqueued += len(missing)
            room -= len(missing)
            if len(due) < BATCH:
                return
            after = due[-1].mark
