"""One HTTP/1.1 connection on which an event stream is read: raw, so that it can be cut anywhere, stalled, and
timed.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Self
from urllib.parse import urlsplit

from lingxi.conformance.sse import Frame, Parser, ProtocolError

_HEAD_BYTES = 64 * 1024
_CLOSE_SECONDS = 10  # the server may take so long to close after the end


class ConnectionLost(Exception):
    """The connection ended in the middle of the answer."""


class StreamConnection:
    """The answer to one GET. `status`, `headers` (names in lower case) and `body` of what is no stream; else frames.

    `last_id` is what a browser would resume from that had taken the frames which `next` has given out so far.
    Used as an async context manager, it is closed at the end.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._left_in_chunk = 0
        self.parser = Parser()
        self.last_id: str | None = None
        self.finished = False  # the server has ended the answer in order
        self._waiting: list[Frame] = []

    @classmethod
    async def open(
        cls,
        url: str,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float = 10,
        receive_buffer_bytes: int | None = None,
    ) -> Self:
        """Send the request and read the head of the answer; OSError or ConnectionLost when that fails."""
        parts = urlsplit(url)
        secure = ssl.create_default_context() if parts.scheme == "https" else None
        host, port = parts.hostname or "", parts.port or (443 if secure else 80)
        async with asyncio.timeout(timeout_seconds):
            plain = await _connected(host, port, receive_buffer_bytes)
            limit = _HEAD_BYTES if receive_buffer_bytes is None else 4096
            reader, writer = await asyncio.open_connection(
                sock=plain, ssl=secure, server_hostname=host if secure else None, limit=limit
            )
            connection = cls(reader, writer)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            lines = [
                f"GET {target} HTTP/1.1",
                f"Host: {parts.netloc}",
                *(f"{n}: {v}" for n, v in headers.items()),
            ]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
            try:
                await connection._read_head()
            except (OSError, asyncio.IncompleteReadError) as error:
                writer.close()
                raise ConnectionLost(str(error)) from error
        return connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()

    def cut(self) -> None:
        """Close without a word, as a lost network does."""
        self._writer.transport.abort()

    def widen(self) -> None:
        """Take as much as comes from now on, after a start with a small receive buffer."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)

    @property
    def is_stream(self) -> bool:
        return self.status == 200 and self.headers.get("content-type", "").startswith("text/event-stream")

    async def next(self, timeout_seconds: float = 15) -> Frame | None:
        """The next frame; None when the server has ended the answer. ConnectionLost, TimeoutError, ProtocolError."""
        async with asyncio.timeout(timeout_seconds):
            while not self._waiting:
                if self.finished or (chunk := await self._chunk()) == b"":
                    self.finished = True
                    return None
                self._waiting = self.parser.feed(chunk, asyncio.get_running_loop().time())
        frame = self._waiting.pop(0)
        if frame.id is not None:
            self.last_id = frame.id
        return frame

    async def until(self, fact: Callable[[Frame], bool], timeout_seconds: float = 30) -> Frame:
        """Read up to the first frame for which `fact` holds. ProtocolError when the stream ends before."""
        async with asyncio.timeout(timeout_seconds):
            while (frame := await self.next(timeout_seconds)) is not None:
                if fact(frame):
                    return frame
        raise ProtocolError("the stream ended before the frame that was waited for")

    async def to_the_end(self, timeout_seconds: float = 60) -> list[Frame]:
        """All frames until the server ends the answer."""
        async with asyncio.timeout(timeout_seconds):
            return [frame async for frame in self._rest(timeout_seconds)]

    async def comment(self, timeout_seconds: float) -> None:
        """Read until a comment has come; TimeoutError."""
        before = self.parser.comments
        async with asyncio.timeout(timeout_seconds):
            while self.parser.comments == before:
                if (chunk := await self._chunk()) == b"":
                    raise ConnectionLost("the stream ended before a comment came")
                self._waiting += self.parser.feed(chunk, asyncio.get_running_loop().time())

    async def _rest(self, timeout_seconds: float) -> AsyncIterator[Frame]:
        while (frame := await self.next(timeout_seconds)) is not None:
            yield frame
            if frame.event == "end":
                timeout_seconds = _CLOSE_SECONDS

    async def _read_head(self) -> None:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.status = int(head[0].split(" ")[1])
        for line in head[1:-2]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        if not self.is_stream:
            await self._read_body()

    async def _read_body(self) -> None:
        if "content-length" in self.headers:
            self.body = await self._reader.readexactly(int(self.headers["content-length"]))
        elif self.headers.get("transfer-encoding", "").lower() == "chunked":
            while chunk := await self._chunk():
                self.body += chunk
        self.finished = True

    async def _chunk(self) -> bytes:
        """Some bytes of the answer, as soon as they are there; empty when it has ended in order."""
        try:
            if self.headers.get("transfer-encoding", "").lower() != "chunked":
                return await self._reader.read(65536)
            if self._left_in_chunk == 0:
                self._left_in_chunk = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
            ended = self._left_in_chunk == 0
            part = await self._reader.read(min(self._left_in_chunk, 65536))
            self._left_in_chunk -= len(part)
            if self._left_in_chunk == 0:
                await self._reader.readexactly(2)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise ConnectionLost(f"{type(error).__name__}: {error}") from error
        if not part and not ended:
            raise ConnectionLost("cut within a chunk")
        return part


async def _connected(host: str, port: int, receive_buffer_bytes: int | None) -> socket.socket:
    """A connected socket; a small receive buffer must be set before the connection is made to limit its window."""
    loop = asyncio.get_running_loop()
    family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    plain = socket.socket(family, kind, protocol)
    plain.setblocking(False)
    if receive_buffer_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    try:
        await loop.sock_connect(plain, address)
    except BaseException:
        plain.close()
        raise
    return plain
