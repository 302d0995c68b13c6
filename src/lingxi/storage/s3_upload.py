"""One put to an S3 server: bounded memory, the hash on the way, and nothing left of what was given up."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from lingxi.observability import failpoints
from lingxi.storage.errors import ObjectTooLarge, StorageError
from lingxi.storage.s3_multipart import MultipartClient

PART_BYTES: Final = 8 << 20  # what an upload holds in memory; S3 wants at least 5 MiB
MOST_PARTS: Final = 10_000
_CLEAN_SECONDS: Final = 10.0


@dataclass(slots=True)
class S3Upload:
    """Where it goes and by which requests. `full_key` is the key in the bucket."""

    full_key: str
    put_whole: Callable[[str, bytes], Awaitable[None]]
    multipart: MultipartClient
    remove: Callable[[str], Awaitable[None]]
    upload_id: str | None = None
    tags: list[str] = field(default_factory=list)
    sent: bool = False  # an object may be there

    async def part(self, data: bytes) -> None:
        """Send one full part; the first one begins the multipart upload."""
        if self.upload_id is None:
            await to_its_end(self._begin())
        assert self.upload_id is not None
        number = len(self.tags) + 1
        self.tags.append(await self.multipart.put_part(self.full_key, self.upload_id, number, data))

    async def _begin(self) -> None:
        self.upload_id = await self.multipart.begin(self.full_key)

    async def finish(self, rest: bytes) -> None:
        """Send what is left, and make it an object."""
        if self.upload_id is None:
            self.sent = True
            await self.put_whole(self.full_key, rest)
            return
        if rest:
            await self.part(rest)
        self.sent = True
        await self.multipart.complete(self.full_key, self.upload_id, self.tags)

    async def give_up(self, *, removable: bool) -> None:
        """Leave nothing. What cannot be removed now is swept later: an unfinished upload, or an orphan."""
        with contextlib.suppress(StorageError):
            if self.upload_id is not None:
                await self.multipart.abort(self.full_key, self.upload_id)
        with contextlib.suppress(StorageError):
            if self.sent and removable:
                await self.remove(self.full_key)


async def put_parts(
    upload: S3Upload, chunks: AsyncIterable[bytes], *, max_bytes: int, removable: bool
) -> tuple[int, bytes]:
    """Send the stream; answers its size and SHA-256. `removable`: nobody else can have put this key."""
    part_bytes = max(PART_BYTES, -(-max_bytes // MOST_PARTS))
    digest = hashlib.sha256()
    size_bytes = 0
    held = bytearray()
    try:
        async for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > max_bytes:
                raise ObjectTooLarge(max_bytes)
            held += chunk
            while len(held) > part_bytes:
                part = bytes(memoryview(held)[:part_bytes])
                del held[:part_bytes]
                await asyncio.to_thread(digest.update, part)
                await upload.part(part)
        digest.update(held)
        await to_its_end(upload.finish(bytes(held)))
        await failpoints.reach("storage.after_put")
    except BaseException:
        cleaning = asyncio.ensure_future(upload.give_up(removable=removable))
        with contextlib.suppress(TimeoutError):  # a second cancel does not wait for it, but leaves it running
            await asyncio.wait_for(asyncio.shield(cleaning), _CLEAN_SECONDS)
        raise
    return size_bytes, digest.digest()


async def to_its_end(work: Awaitable[None]) -> None:
    """Work that is cancelled half-way may be carried out after our cleaning, or make what we then do not know of: wait for it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_CLEAN_SECONDS)
        task.cancel()
        raise
