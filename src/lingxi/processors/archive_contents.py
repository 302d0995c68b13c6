"""The contents of an archive's files, checked, and fetched ahead: many small ones in one go, a few larger ones side by side."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final, NamedTuple

from lingxi.domain.errors import Permanent
from lingxi.processors.archive_zip import DESCRIBED_ABOVE_BYTES, Digest
from lingxi.services.archive_files import ArchiveFile
from lingxi.storage import ObjectMissing, Storage

_SMALL_BYTES: Final = 256 << 10  # files up to here are read in batches: what they cost is the asking
_BATCH_BYTES: Final = 1 << 20
_BATCH_FILES: Final = 128
_AHEAD_BYTES: Final = 24 << 20  # what is held in memory before its turn
_AHEAD: Final = 8  # so many batches or files


class Content(NamedTuple):
    """All bytes of a file, and their CRC-32."""

    chunks: list[bytes]
    crc: int


class Missing:
    """What a file is that storage does not have."""


class Later:
    """What a file is that is too large to be held: it is read when its turn comes."""


Found = tuple[ArchiveFile, Content | Missing | Later]


async def contents(storage: Storage, files: Sequence[ArchiveFile]) -> AsyncGenerator[list[Found], None]:
    """The files in their order, in batches of one or more; close it when you stop early.

    Permanent `checksum_mismatch` that names the file; StorageUnavailable.
    """
    coming: deque[tuple[asyncio.Task[list[Found]], int]] = deque()
    batches, held, batch = _batches(files), 0, None
    try:
        while True:
            while len(coming) < _AHEAD and (batch := batch or next(batches, None)) is not None:
                size = _held_bytes(batch)
                if coming and held + size > _AHEAD_BYTES:
                    break
                coming.append((asyncio.create_task(_read(storage, batch)), size))
                held, batch = held + size, None
            if not coming:
                return
            task, size = coming[0]
            yield await task
            coming.popleft()
            held -= size
    finally:
        left = [task for task, _ in coming]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def check(file: ArchiveFile, digest: Digest) -> None:
    """Permanent `checksum_mismatch` unless these are the bytes that were put."""
    if (digest.size_bytes, digest.sha256) != (file.size_bytes, file.sha256):
        raise Permanent(
            "checksum_mismatch", f"The stored bytes of {file.name!r} are no longer the ones that were put."
        )


def _batches(files: Sequence[ArchiveFile]) -> Iterator[list[ArchiveFile]]:
    """Small files together, each larger one by itself."""
    batch: list[ArchiveFile] = []
    held = 0
    for file in files:
        small = file.size_bytes <= _SMALL_BYTES
        if batch and (not small or len(batch) == _BATCH_FILES or held + file.size_bytes > _BATCH_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(file)
        held += file.size_bytes
        if not small:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _held_bytes(batch: list[ArchiveFile]) -> int:
    return sum(file.size_bytes for file in batch if file.size_bytes <= DESCRIBED_ABOVE_BYTES)


async def _read(storage: Storage, batch: list[ArchiveFile]) -> list[Found]:
    if batch[0].size_bytes <= _SMALL_BYTES:
        return await _read_small(storage, batch)
    return await _read_one(storage, batch[0])


async def _read_small(storage: Storage, batch: list[ArchiveFile]) -> list[Found]:
    there = [file for file in batch if file.storage_key is not None]
    most = (
        max((file.size_bytes for file in there), default=0) + 1
    )  # one more: a longer one is not taken for whole
    read = await storage.read_small([file.storage_key or "" for file in there], max_bytes=most)
    found = await asyncio.to_thread(_digest, there, read)
    if len(there) == len(batch):
        return found
    by_key = iter(found)
    return [(file, Missing()) if file.storage_key is None else next(by_key) for file in batch]


def _digest(files: list[ArchiveFile], contents: list[bytes | None]) -> list[Found]:
    found: list[Found] = []
    for file, data in zip(files, contents, strict=True):
        if data is None:
            found.append((file, Missing()))
            continue
        digest = Digest()
        digest.update(data)
        check(file, digest)
        found.append((file, Content([data], digest.crc)))
    return found


async def _read_one(storage: Storage, file: ArchiveFile) -> list[Found]:
    if file.storage_key is None:
        return [(file, Missing())]
    if file.size_bytes > DESCRIBED_ABOVE_BYTES:
        return [(file, Later())]
    try:
        reader = await storage.open(file.storage_key)
    except ObjectMissing:
        return [(file, Missing())]
    digest, chunks = Digest(), []
    try:
        async for chunk in reader:
            if digest.size_bytes > file.size_bytes:
                break
            await asyncio.to_thread(digest.update, chunk)
            chunks.append(chunk)
    finally:
        await reader.close()
    check(file, digest)
    return [(file, Content(chunks, digest.crc))]
