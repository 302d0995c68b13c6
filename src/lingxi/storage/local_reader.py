"""Reading a file of the local storage."""

import contextlib
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final

from lingxi.storage.errors import StorageUnavailable
from lingxi.storage.port import CHUNK_BYTES, WholeFile

_BLOCK_BYTES: Final = 256 << 10


class LocalReader:
    """An open file, read chunk by chunk; see `ObjectReader`."""

    def __init__(
        self,
        run: Callable[..., Coroutine[Any, Any, bytes]],
        file: "OpenFile",
        start: int,
        length: int | None,
        *,
        ours: bool,
    ) -> None:
        """`ours`: nobody changes the file."""
        self.size_bytes = file.size_bytes
        self._run = run
        self._file = file
        self._ours = ours
        self._position = start
        self._end = file.size_bytes if length is None else min(file.size_bytes, start + length)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while self._position < self._end:
                chunk = await self._run(
                    self._file.read, min(CHUNK_BYTES, self._end - self._position), self._position
                )
                if not chunk:
                    raise StorageUnavailable("a stored file ended before its size")
                self._position += len(chunk)
                yield chunk
        finally:
            await self.close()

    async def whole_file(self) -> WholeFile | None:
        """See `ObjectReader.whole_file`: read once, in one thread."""
        if not self._ours:
            return None
        digest = await self._run(self._file.digest)
        return WholeFile(self._file.descriptor, digest)

    async def close(self) -> None:
        """See `ObjectReader.close`."""
        self._file.close()


class OpenFile:
    """A descriptor that is read in threads; never closed under a read, since its number may be given out anew."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._lock = threading.Lock()
        self._reading = False
        self._closed = False
        self.size_bytes = os.fstat(descriptor).st_size

    def read(self, size: int, position: int) -> bytes:
        with self._held() as open_:
            return os.pread(self.descriptor, size, position) if open_ else b""

    def digest(self) -> bytes:
        """SHA-256 of all bytes, as long as nobody closes it."""
        digest = hashlib.sha256()
        block = memoryview(bytearray(_BLOCK_BYTES))  # stays in the processor's cache
        position = 0
        with self._held() as open_:
            while open_ and not self._closed and (count := os.preadv(self.descriptor, [block], position)):
                digest.update(block[:count])
                position += count
        return digest.digest()

    @contextlib.contextmanager
    def _held(self) -> Iterator[bool]:
        """Nobody closes the descriptor within; False when somebody has."""
        with self._lock:
            self._reading = open_ = not self._closed
        try:
            yield open_
        finally:
            with self._lock:
                if self._reading and self._closed:
                    os.close(self.descriptor)
                self._reading = False

    def close(self) -> None:
        with self._lock:
            if not self._closed and not self._reading:
                os.close(self.descriptor)
            self._closed = True
