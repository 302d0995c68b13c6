"""An archive as a stream: files are read from storage, checked, and written on, a few megabytes of them in memory at a time."""

import asyncio
import hashlib
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from lingxi.domain.errors import Permanent
from lingxi.processors.archive_contents import Content, Missing, check, contents
from lingxi.processors.archive_names import MANIFEST, RECEIPT, unique_names
from lingxi.processors.archive_receipt import ManifestWriter, Receipt, SigningKey
from lingxi.processors.archive_zip import Digest, Entry, ZipBytes
from lingxi.services.archive_files import ArchiveFile
from lingxi.storage import CHUNK_BYTES, ObjectMissing, Storage

_BLOCKS_AHEAD: Final = 8  # of CHUNK_BYTES, read while storage takes the one before
_IN_LOOP_BYTES: Final = 1 << 15  # a hop to a thread costs more than hashing this


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

    async def _pieces(self) -> AsyncGenerator[list[bytes], None]:
        """The archive's bytes in pieces of any size, about a megabyte of them at a time."""
        names = unique_names(file.name for file in self._files)
        async with aclosing(contents(self._storage, self._files)) as batches:
            async for batch in batches:
                pieces: list[bytes] = []
                for file, content in batch:
                    entry = Entry(next(names), file.size_bytes, file.modified_at)
                    if isinstance(content, Content):
                        pieces.append(self._zip.header(entry, content.crc))
                        pieces += content.chunks
                        self._zip.footer(entry, content.crc)
                        self._add(entry, file)
                        self._done_bytes += file.size_bytes
                    elif isinstance(content, Missing):
                        self._miss(file)
                    else:  # it is a batch of its own
                        async for piece in self._large(entry, file):
                            yield [piece]
                self._say(self._done_bytes, self.file_count)
                yield pieces
        yield self._last_pieces()

    async def _large(self, entry: Entry, file: ArchiveFile) -> AsyncGenerator[bytes, None]:
        """A file that is not held in memory: its CRC follows its content."""
        assert file.storage_key is not None
        try:
            reader = await self._storage.open(file.storage_key)
        except ObjectMissing:
            self._miss(file)
            return
        digest = Digest()
        try:
            yield self._zip.header(entry, None)
            async for chunk in reader:
                await _update(digest, chunk)
                yield chunk
                self._done_bytes += len(chunk)
                self._say(self._done_bytes, self.file_count)
        finally:
            await reader.close()
        check(file, digest)
        yield self._zip.footer(entry, digest.crc)
        self._add(entry, file)

    def _add(self, entry: Entry, file: ArchiveFile) -> None:
        self._manifest.add(entry.name, entry.size_bytes, file.sha256, entry.modified_at, file.source)
        self.file_count += 1

    def _last_pieces(self) -> list[bytes]:
        manifest = self._manifest.end(self.skipped)
        self.receipt = self._key.sign(hashlib.sha256(manifest).digest())
        pieces = []
        for name, data in ((MANIFEST, manifest), (RECEIPT, self.receipt.encode())):
            entry, crc = Entry(name, len(data), self._issued_at), zlib.crc32(data)
            pieces += [self._zip.header(entry, crc), data]
            self._zip.footer(entry, crc)
        return [*pieces, *self._zip.directory()]

    def _miss(self, file: ArchiveFile) -> None:
        if not self._skip_missing:
            raise not_found(file)
        self.skipped.append({"name": file.name, "source": file.source})


def not_found(file: ArchiveFile) -> Permanent:
    """Permanent `object_not_found` that names the file."""
    if file.source == file.name:
        return Permanent("object_not_found", f"There is no object {file.name!r} in the workspace.")
    return Permanent("object_not_found", f"The file of {file.name!r} (photo {file.source}) is not there.")


async def _update(digest: Digest, chunk: bytes) -> None:
    if len(chunk) <= _IN_LOOP_BYTES:
        digest.update(chunk)
    else:
        await asyncio.to_thread(digest.update, chunk)


async def _read_ahead(pieces: AsyncGenerator[list[bytes], None]) -> AsyncGenerator[bytes, None]:
    """The pieces in blocks, a few of them made before they are asked for: reading and writing go on side by side."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BLOCKS_AHEAD)

    async def pump() -> None:
        held: list[bytes] = []
        size = 0
        try:
            async with aclosing(pieces):
                async for some in pieces:
                    for piece in some:
                        held.append(piece)
                        size += len(piece)
                        if size >= CHUNK_BYTES:
                            await queue.put(b"".join(held))  # of a single piece that is the piece itself
                            held, size = [], 0
            if held:
                await queue.put(b"".join(held))
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
