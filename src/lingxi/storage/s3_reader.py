"""Reading an object of an S3 server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from obstore.exceptions import BaseError

from lingxi.storage.errors import ObjectMissing, StorageError, StorageUnavailable
from lingxi.storage.port import CHUNK_BYTES
from lingxi.storage.s3_access import unreachable

_TRIES: Final = 3  # without a byte in between
_PAUSE_SECONDS: Final = 0.2
_REQUESTS_AT_ONCE: Final = 16

Reopen = Callable[[int, int, str | None], Awaitable[Any]]


class S3Reader:
    """An answer being read; see `ObjectReader`.

    Servers hang up on readers that pause (a slow client of ours), and connections break: then it asks for the rest of the same
    object. A silence of more than `timeout_seconds`, or three failures without a byte in between, end it with StorageUnavailable.
    """

    def __init__(self, size_bytes: int, result: Any, reopen: Reopen, timeout_seconds: float) -> None:
        """`result`: obstore's answer to a get. `reopen(start, end, etag)`: asks again, for a part of the same object."""
        self.size_bytes = size_bytes
        span: tuple[int, int] = (0, 0) if result is None else result.range
        self._position, self._end = span
        self._etag = None if result is None else result.meta["e_tag"]
        self._stream = None if result is None else result.stream(min_chunk_size=CHUNK_BYTES)
        self._reopen = reopen
        self._timeout_seconds = timeout_seconds
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while self._position < self._end:
                chunk = memoryview(await self._next())
                self._position += len(chunk)
                for start in range(0, len(chunk), CHUNK_BYTES):
                    yield bytes(chunk[start : start + CHUNK_BYTES])
        finally:
            await self.close()

    async def _next(self) -> bytes:
        failure = unreachable("the connection broke")
        for attempt in range(_TRIES):
            if self._closed:
                raise StorageUnavailable("the object was closed while it was read")
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS * attempt)
            try:
                if self._stream is None:
                    result = await self._reopen(self._position, self._end, self._etag)
                    self._stream = result.stream(min_chunk_size=CHUNK_BYTES)
                async with asyncio.timeout(self._timeout_seconds):
                    return await self._stream.__anext__()  # type: ignore[no-any-return]
            except TimeoutError:
                raise unreachable("it did not answer in time") from None
            except StorageUnavailable as error:
                failure = error
            except StorageError:
                raise StorageUnavailable("a stored object was removed or changed while it was read") from None
            except (BaseError, OSError, ValueError, StopAsyncIteration):
                self._stream = None
        raise failure

    async def whole_file(self) -> None:
        """See `ObjectReader.whole_file`: there is none."""

    async def close(self) -> None:
        """See `ObjectReader.close`. The connection goes when its stream does."""
        self._closed = True
        self._stream = None


async def read_several(
    open_object: Callable[..., Awaitable[S3Reader]], keys: Sequence[str], max_bytes: int
) -> list[bytes | None]:
    """The first `max_bytes` of each, in order, None for one that is missing; the first failure ends all."""
    contents: list[bytes | None] = [None] * len(keys)
    left = iter(enumerate(keys))

    async def read_on() -> None:
        for place, key in left:
            with contextlib.suppress(ObjectMissing):
                reader = await open_object(key, length=max_bytes)
                contents[place] = b"".join([chunk async for chunk in reader])

    reading = [asyncio.create_task(read_on()) for _ in range(min(_REQUESTS_AT_ONCE, len(keys)))]
    try:
        await asyncio.gather(*reading)
    finally:
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    return contents
