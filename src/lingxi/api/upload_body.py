"""The body of a PATCH as storage takes it: in stretches, kept when the client goes away, ended when silent and another comes.

A connection that breaks, a body that stalls, and one that makes way end early: what has come is kept, and `ended_by` says why.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

from starlette.requests import ClientDisconnect, Request

from lingxi.api.limits import ClientGone
from lingxi.domain.errors import Conflict, TooLarge, TooSlow
from lingxi.imaging.sniff import HEAD_BYTES

STRETCH_SECONDS: Final = 30.0  # what a crash of this process costs the client at most
IDLE_SECONDS: Final = 0.5  # a body that is silent for so long makes way for the request that comes next


class UploadLocked(Conflict):
    """Another request goes on with this upload (423)."""

    def __init__(self) -> None:
        super().__init__("Another request goes on with this upload.", status=423)


class UploadBody:
    """`begin`, then `stretch` as long as there is `more`. `digest` is of all that came, when an algorithm was given."""

    def __init__(
        self,
        request: Request,
        max_bytes: int,
        algorithm: str | None = None,
        stretch_seconds: float | None = None,
    ) -> None:
        self.ended_by: Exception | None = None
        self.received_bytes = 0
        self._chunks = request.stream()
        self._max_bytes = max_bytes
        self._hash = hashlib.new(algorithm) if algorithm else None
        self._stretch_seconds = stretch_seconds
        self._ahead = b""
        self._scope: asyncio.Timeout | None = None
        self._waiting = 0

    async def begin(self) -> bytes:
        """The first HEAD_BYTES at least, or all there is; they are still part of the first stretch."""
        while len(self._ahead) < HEAD_BYTES and (chunk := await self._next()):
            self._ahead += chunk
        return self._ahead

    @property
    def more(self) -> bool:
        return bool(self._ahead)

    async def stretch(self) -> AsyncIterator[bytes]:
        """Up to the end, or until it is time to make durable what has come."""
        loop = asyncio.get_running_loop()
        end = None if self._stretch_seconds is None else loop.time() + self._stretch_seconds
        while self._ahead:
            yield self._ahead
            self._ahead = await self._next()
            if end is not None and loop.time() >= end:
                return

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Somebody waits to go on with this upload: meanwhile a body of which nothing comes for IDLE_SECONDS ends.

        A body that moves is not ended, else clients that interrupt each other would all get nowhere.
        """
        self._waiting += 1
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)
        try:
            yield
        finally:
            self._waiting -= 1

    def digest(self) -> bytes | None:
        return None if self._hash is None else self._hash.digest()

    async def _next(self) -> bytes:
        """The next bytes; none at the end, whatever ended it. TooLarge past `max_bytes`."""
        while self.ended_by is None:
            try:
                async with asyncio.timeout(IDLE_SECONDS if self._waiting else None) as self._scope:
                    chunk = await anext(self._chunks)
            except StopAsyncIteration:
                return b""
            except TimeoutError:
                self.ended_by = UploadLocked()
                return b""
            except (ClientGone, ClientDisconnect, TooSlow) as error:
                self.ended_by = error
                return b""
            finally:
                self._scope = None
            if chunk:
                return self._counted(chunk)
        return b""

    def _counted(self, chunk: bytes) -> bytes:
        self.received_bytes += len(chunk)
        if self.received_bytes > self._max_bytes:
            raise TooLarge(
                f"More bytes than the Upload-Length: at this offset at most {self._max_bytes} bytes."
            )
        if self._hash is not None:
            self._hash.update(chunk)
        return chunk
