"""Reading an object of an S3 server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from obstore.exceptions import BaseError

from lingxi.storage.errors import StorageUnavailable
from lingxi.storage.port import CHUNK_BYTES
from lingxi.storage.s3_access import unreachable


class S3Reader:
    """An answer being read; see `ObjectReader`. A silence of more than `timeout_seconds` ends it with StorageUnavailable."""

    def __init__(self, size_bytes: int, length: int, stream: Any, timeout_seconds: float) -> None:
        self.size_bytes = size_bytes
        self._missing_bytes = length
        self._stream = stream
        self._timeout_seconds = timeout_seconds

    @classmethod
    def of(cls, result: Any, timeout_seconds: float) -> "S3Reader":
        """Of obstore's answer to a get."""
        start, end = result.range
        stream = result.stream(min_chunk_size=CHUNK_BYTES)
        return cls(result.meta["size"], end - start, stream, timeout_seconds)

    @classmethod
    def empty(cls, size_bytes: int) -> "S3Reader":
        """A part without bytes."""
        return cls(size_bytes, 0, None, 0.0)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while self._missing_bytes > 0:
                chunk = memoryview(await self._next())
                self._missing_bytes -= len(chunk)
                for start in range(0, len(chunk), CHUNK_BYTES):
                    yield bytes(chunk[start : start + CHUNK_BYTES])
        finally:
            await self.close()

    async def _next(self) -> bytes:
        if self._stream is None:
            raise StorageUnavailable("the object was closed while it was read")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._stream.__anext__()  # type: ignore[no-any-return]
        except StopAsyncIteration:
            raise StorageUnavailable("a stored object ended before its size") from None
        except TimeoutError:
            raise unreachable("it did not answer in time") from None
        except (BaseError, OSError, ValueError):
            raise unreachable("the connection broke") from None

    async def close(self) -> None:
        """See `ObjectReader.close`. The connection goes when its stream does."""
        self._stream = None
