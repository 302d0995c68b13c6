"""Reading a file of the local storage."""

import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from lingxi.storage.errors import StorageUnavailable
from lingxi.storage.port import CHUNK_BYTES


class LocalReader:
    """An open file, read chunk by chunk; see `ObjectReader`."""

    def __init__(
        self,
        run: Callable[..., Coroutine[Any, Any, bytes]],
        file: "OpenFile",
        start: int,
        length: int | None,
    ) -> None:
        self.size_bytes = file.size_bytes
        self._run = run
        self._file = file
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

    async def close(self) -> None:
        """See `ObjectReader.close`."""
        self._file.close()


class OpenFile:
    """A descriptor that is read in threads; never closed under a read, since its number may be given out anew."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._reading = False
        self._closed = False
        self.size_bytes = os.fstat(descriptor).st_size

    def read(self, size: int, position: int) -> bytes:
        with self._lock:
            if self._closed:
                return b""
            self._reading = True
        try:
            return os.pread(self._descriptor, size, position)
        finally:
            with self._lock:
                self._reading = False
                if self._closed:
                    os.close(self._descriptor)

    def close(self) -> None:
        with self._lock:
            if not self._closed and not self._reading:
                os.close(self._descriptor)
            self._closed = True
