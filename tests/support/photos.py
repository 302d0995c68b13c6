"""Albums with photos: upload them, run workers that publish them, and look at what became of them, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import asyncpg

from lingxi.broker.connection import connection_factory
from lingxi.broker.queue import BullQueue
from lingxi.db.session import is_unavailable, transaction
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.maintenance.photo_sweep import PhotoSweepCounts, PhotoSweeper
from lingxi.names import PHOTO_QUEUE
from lingxi.processors.photo_process import PhotoProcess
from lingxi.processors.publish import PublishDeps
from lingxi.services.add_photo import Added, NewPhoto, add_photo
from lingxi.services.albums import create_album
from lingxi.storage import ObjectReader, Storage, StorageUnavailable, StoredBytes, open_storage
from lingxi.worker.process import WorkerProcess
from tests.support.pictures import picture
from tests.support.waiting import wait_until
from tests.support.work import Work, never

MEBIBYTE = 1 << 20
PHOTO = picture("jpeg", 600, 400)
VARIANTS = ["browse", "thumb"]


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


class TroubledStorage:
    """A real storage that can be away, and that says how often it was asked for bytes."""

    def __init__(self, real: Storage) -> None:
        self._real = real
        self.away = False
        self.opened = 0

    async def put(
        self, given: AsyncIterable[bytes], *, max_bytes: int, key: str | None = None
    ) -> StoredBytes:
        self._check()
        return await self._real.put(given, max_bytes=max_bytes, key=key)

    async def put_file(self, path: Path, *, max_bytes: int, key: str | None = None) -> StoredBytes:
        self._check()
        return await self._real.put_file(path, max_bytes=max_bytes, key=key)

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> ObjectReader:
        self.opened += 1
        self._check()
        return await self._real.open(key, start=start, length=length)

    def _check(self) -> None:
        if self.away:
            raise StorageUnavailable("the test has cut it off")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@dataclass
class Photos:
    """One album in the workspace of `work`, with storage and decoders of this test."""

    work: Work
    album_id: UUID
    storage: TroubledStorage
    deps: PublishDeps
    folder: Path
    numbers: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def open(cls, work: Work, folder: Path, real: Storage | None = None) -> AsyncIterator[Photos]:
        """Objects lie in `folder`/objects, as a worker process with that data folder has them, or in `real`."""
        storage = TroubledStorage(real or open_storage((folder / "objects").as_uri()))
        decoders = Decoders(DecoderConfig(children=1))
        deps = PublishDeps(
            cast(Storage, storage), decoders, lambda: transaction(work.pool), folder / "scratch"
        )
        async with work.pool.acquire() as connection, connection.transaction():
            album = await create_album(connection, work.workspace_id, "Wedding")
        try:
            yield cls(work, album.id, storage, deps, folder)
        finally:
            await decoders.close()
            await storage.close()

    # ── doing ────────────────────────────────────────────────────────────────────────────────────────────
    async def upload(self, data: bytes = PHOTO, name: str = "IMG_1.jpg") -> Added:
        """Object, then rows and event in one transaction; what turns out to be there already is removed again."""
        stored = await self.storage.put(chunks(data), max_bytes=100 * MEBIBYTE)
        new = NewPhoto(name, stored.key, stored.size_bytes, stored.sha256, "image/jpeg", datetime.now(UTC))
        async with self.work.pool.acquire() as connection, connection.transaction():
            added = await add_photo(connection, self.work.workspace_id, self.album_id, new)
        if not added.created:
            await self.storage.delete(stored.key)
        return added

    async def new_photo(self, data: bytes = PHOTO) -> UUID:
        return (await self.upload(data)).photo.id

    @asynccontextmanager
    async def worker(self, **changes: Any) -> AsyncIterator[WorkerProcess]:
        """A worker of photo:process in this process and loop, stopped in order at the end."""
        given = {"photo_backoff_seconds": 0.2, **changes}
        config = self.work.config(queues=(PHOTO_QUEUE,), **given)
        processors = {PHOTO_QUEUE: PhotoProcess(self.deps).processor()}
        process = WorkerProcess(
            config, processors, end_process=never, storage=self.storage, publish=self.deps
        )
        task = asyncio.create_task(process.run())
        try:
            yield process
        finally:
            process.ask_to_stop()
            assert await task == 0

    @asynccontextmanager
    async def queue(self, token: str = "test") -> AsyncIterator[BullQueue]:
        queue = BullQueue(PHOTO_QUEUE, connection_factory(self.work.redis_url), token=token)
        try:
            yield queue
        finally:
            await queue.close()

    async def sweep(self) -> PhotoSweepCounts:
        """`sweep_once()`."""
        async with self.queue("sweep") as queue:
            return await PhotoSweeper(self.work.pool, queue).sweep_once()

    async def age_leases(self, minutes: int = 6) -> None:
        """As if nobody had renewed any lease for so long."""
        await self.work.pool.execute(
            "update photo_jobs set lease_renewed_at = lease_renewed_at - make_interval(mins => $1) where state = 'active'",
            minutes,
        )

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────
    async def row(self, photo_id: UUID) -> asyncpg.Record:
        row = await self.work.pool.fetchrow("select * from photos where id = $1", photo_id)
        assert row is not None
        return row

    async def job(self, photo_id: UUID) -> asyncpg.Record:
        row = await self.work.pool.fetchrow("select * from photo_jobs where photo_id = $1", photo_id)
        assert row is not None
        return row

    async def variants(self, photo_id: UUID) -> list[asyncpg.Record]:
        return await self.work.pool.fetch(
            "select * from photo_variants where photo_id = $1 order by kind", photo_id
        )

    async def events(self, photo_id: UUID) -> list[str]:
        """Types of the photo's events, uploads apart, in order."""
        rows = await self.work.pool.fetch(
            "select type from outbox_events where payload ->> 'photoId' = $1 and type <> 'photo.uploaded' order by id",
            str(photo_id),
        )
        return [row["type"] for row in rows]

    async def until_job(self, photo_id: UUID, state: str, timeout_seconds: float = 20.0) -> asyncpg.Record:
        """Until the photo's job is in this state."""

        async def there() -> asyncpg.Record | None:
            try:
                row = await self.job(photo_id)
            except Exception as error:
                if is_unavailable(error):  # a test may cut every connection, this one in mid-question too
                    return None
                raise
            return row if row["state"] == state else None

        row: asyncpg.Record = await wait_until(cast(Any, there), timeout_seconds, f"the job is {state}")
        return row

    async def queue_counts(self) -> tuple[int, int, int, int]:
        """Jobs in Redis: waiting, active, delayed, failed."""
        async with self.queue() as queue:
            counts = await queue.counts()
        return counts.waiting, counts.active, counts.delayed, counts.failed

    async def until_queue_empty(self) -> None:
        async def empty() -> bool:
            return not any(await self.queue_counts())

        await wait_until(cast(Any, empty), message="no job of a photo is left")

    async def assert_published_once(self, photo_id: UUID) -> None:
        """One row a variant whose bytes are there, one event, one version, one number of the feed after the upload's."""
        row = await self.row(photo_id)
        assert (row["processing_state"], row["visibility"], row["entity_version"]) == (
            "ready", "published", 1,
        )  # fmt: skip
        assert (row["published_generation"], row["error_code"]) == (1, None)
        variants = await self.variants(photo_id)
        assert [variant["kind"] for variant in variants] == VARIANTS
        for variant in variants:
            assert variant["file_name"].split("-")[2] == variant["sha256"].hex()[:16] + ".jpg"
            reader = await self.storage.open(variant["storage_key"])
            assert sum([len(chunk) async for chunk in reader]) == variant["size_bytes"]
        assert await self.events(photo_id) == ["photo.published"]
        assert (await self.job(photo_id))["state"] == "done"
