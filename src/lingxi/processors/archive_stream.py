"""An archive as a stream: files are read from storage, checked, and written on, a few megabytes of them in memory at a time."""

import asyncio
import hashlib
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from lingxi.domain.errors import Permanent
from lingxi.processors.archive_names import MANIFEST, RECEIPT, unique_names
from lingxi.processors.archive_receipt import ManifestWriter, Receipt, SigningKey
from lingxi.processors.archive_zip import DESCRIBED_ABOVE_BYTES, Digest, Entry, ZipBytes
from lingxi.services.archive_files import ArchiveFile
from lingxi.storage import CHUNK_BYTES, ObjectMissing, Storage

AHEAD_BYTES: Final = (
    1 << 20
)  # files up to here are fetched several at a time, so that many small ones are quick
_AHEAD_FILES: Final = 8
_BLOCKS_AHEAD: Final = 8  # of CHUNK_BYTES, read while storage takes the one before
_IN_LOOP_BYTES: Final = 1 << 15  # a hop to a thread costs more than hashing this


class _Whole(NamedTuple):
    """The content of a file, and its CRC-32."""

    chunks: list[bytes]
    crc: int


class ArchiveStream:
    """`chunks()` once; then `receipt`, `file_count` and `skipped` tell what came of it.

    `head` begins the manifest, `issued_at` (seconds since 1970) is the time of the manifest and the receipt, `say(bytes, files)`
    is told how far it is. With `skip_missing` a file that storage does not have is left out, else it is `object_not_found`.
    """

    def __init__(
        self,
        storage: Storage,
        files: Sequence[ArchiveFile],
        key: SigningKey,
        *,
        head: Mapping[str, Any],
        issued_at: int,
        skip_missing: bool,
        say: Callable[[int, int], None],
    ) -> None:
        self.receipt: Receipt | None = None
        self.file_count = 0
        self.skipped: list[dict[str, str]] = []
        self._storage = storage
        self._files = files
        self._key = key
        self._issued_at = issued_at
        self._skip_missing = skip_missing
        self._say = say
        self._zip = ZipBytes()
        self._manifest = ManifestWriter(head)
        self._done_bytes = 0

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The archive, in blocks of about CHUNK_BYTES; close it when you stop early.

        Permanent `object_not_found` or `checksum_mismatch`, each naming the file; StorageUnavailable.
        """
        return _read_ahead(self._pieces())

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        names = unique_names(file.name for file in self._files)
        async with aclosing(self._contents()) as contents:
            async for file, whole in contents:
                entry = Entry(next(names), file.size_bytes, file.modified_at)
                if file.storage_key is None or isinstance(whole, ObjectMissing):
                    self._miss(file)
                    continue
                digest = Digest()
                if whole is not None:
                    yield self._zip.header(entry, whole.crc)
                    for chunk in whole.chunks:
                        yield chunk
                    self._zip.footer(entry, whole.crc)
                else:
                    try:
                        reader = await self._storage.open(file.storage_key)
                    except ObjectMissing:
                        self._miss(file)
                        continue
                    try:
                        yield self._zip.header(entry, None)
                        async for chunk in reader:
                            await _update(digest, chunk)
                            yield chunk
                            self._tell(len(chunk))
                    finally:
                        await reader.close()
                    _check(file, digest)
                    yield self._zip.footer(entry, digest.crc)
                self._manifest.add(entry.name, entry.size_bytes, file.sha256, entry.modified_at, file.source)
                self.file_count += 1
                self._tell(file.size_bytes if whole is not None else 0)
        for piece in self._last_pieces():
            yield piece

    def _last_pieces(self) -> list[bytes]:
        manifest = self._manifest.end(self.skipped)
        self.receipt = self._key.sign(hashlib.sha256(manifest).digest())
        pieces = []
        for name, data in ((MANIFEST, manifest), (RECEIPT, self.receipt.encode())):
            entry, crc = Entry(name, len(data), self._issued_at), zlib.crc32(data)
            pieces += [self._zip.header(entry, crc), data]
            self._zip.footer(entry, crc)
        return [*pieces, *self._zip.directory()]

    async def _contents(self) -> AsyncGenerator[tuple[ArchiveFile, _Whole | ObjectMissing | None], None]:
        """Each file, in order, with its content unless it is a large one; the next small ones are on their way meanwhile."""
        coming: deque[tuple[ArchiveFile, asyncio.Task[_Whole | ObjectMissing] | None]] = deque()
        files = iter(self._files)
        try:
            while True:
                while len(coming) < _AHEAD_FILES and (file := next(files, None)) is not None:
                    small = file.storage_key is not None and file.size_bytes <= AHEAD_BYTES
                    coming.append((file, asyncio.create_task(self._whole(file)) if small else None))
                if not coming:
                    return
                file, task = coming.popleft()
                if task is not None:
                    yield file, await task
                elif file.storage_key is not None and file.size_bytes <= DESCRIBED_ABOVE_BYTES:
                    yield file, await self._whole(file)
                else:
                    yield file, None
        finally:
            left = [task for _, task in coming if task is not None]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _whole(self, file: ArchiveFile) -> _Whole | ObjectMissing:
        assert file.storage_key is not None
        try:
            reader = await self._storage.open(file.storage_key)
        except ObjectMissing as missing:
            return missing
        digest, chunks = Digest(), []
        try:
            async for chunk in reader:
                if digest.size_bytes > file.size_bytes:
                    break
                await _update(digest, chunk)
                chunks.append(chunk)
        finally:
            await reader.close()
        _check(file, digest)
        return _Whole(chunks, digest.crc)

    def _miss(self, file: ArchiveFile) -> None:
        if not self._skip_missing:
            raise not_found(file)
        self.skipped.append({"name": file.name, "source": file.source})

    def _tell(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        self._say(self._done_bytes, self.file_count)


def not_found(file: ArchiveFile) -> Permanent:
    """Permanent `object_not_found` that names the file."""
    if file.source == file.name:
        return Permanent("object_not_found", f"There is no object {file.name!r} in the workspace.")
    return Permanent("object_not_found", f"The file of {file.name!r} (photo {file.source}) is not there.")


def _check(file: ArchiveFile, digest: Digest) -> None:
    if (digest.size_bytes, digest.sha256) != (file.size_bytes, file.sha256):
        raise Permanent(
            "checksum_mismatch", f"The stored bytes of {file.name!r} are no longer the ones that were put."
        )


async def _update(digest: Digest, chunk: bytes) -> None:
    if len(chunk) <= _IN_LOOP_BYTES:
        digest.update(chunk)
    else:
        await asyncio.to_thread(digest.update, chunk)


async def _read_ahead(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The pieces in blocks, a few of them made before they are asked for: reading and writing go on side by side."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BLOCKS_AHEAD)

    async def pump() -> None:
        try:
            block = bytearray()
            async with aclosing(pieces):
                async for piece in pieces:
                    if not block and len(piece) >= CHUNK_BYTES:
                        await queue.put(piece)
                        continue
                    block += piece
                    if len(block) >= CHUNK_BYTES:
                        await queue.put(bytes(block))
                        block.clear()
            if block:
                await queue.put(bytes(block))
        finally:
            if not pumping.cancelling():
                await queue.put(None)

    pumping = asyncio.create_task(pump())
    try:
        while (block := await queue.get()) is not None:
            yield block
        await pumping
    finally:
        pumping.cancel()
        await asyncio.gather(pumping, return_exceptions=True)
