"""A TCP proxy that misbehaves on demand: refuses, stalls, cuts after so many bytes, swallows one answer.

It runs on a thread with a loop of its own, so both async tests and tests of processes can use it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_CHUNK_BYTES = 65536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class CuttingProxy:
    """Listens on a loopback port and forwards to `host:port`, until told otherwise. A context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cutting-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flow: asyncio.Event
        self._cut_after_bytes: int | None = None
        self._refuse_after_bytes_sent: int | None = None
        self._swallow_reply_to: bytes | None = None
        self._seconds_per_byte = 0.0
        self.port = 0
        self.accepted = 0
        """Connections taken so far."""
        self.swallowed = 0
        """Answers swallowed so far."""

    @classmethod
    def to(cls, url: str) -> Self:
        """A proxy in front of the server that `url` names."""
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        return cls(parts.hostname, parts.port)

    def url(self, url: str) -> str:
        """`url` with the proxy's address in place of the server's."""
        parts = urlsplit(url)
        credentials, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{credentials}{at}127.0.0.1:{self.port}").geturl()

    def forward(self) -> None:
        """Behave: take connections and pass everything on."""
        self._do(self._forward())

    def refuse(self) -> None:
        """Reset what is open, and refuse new connections."""
        self._do(self._refuse())

    def stall(self) -> None:
        """Keep connections open, take new ones, and pass nothing on in either direction."""
        self._do(self._stall())

    def cut(self) -> None:
        """Reset all open connections now; new ones are taken."""
        self._do(self._cut())

    def cut_after(self, size_bytes: int | None) -> None:
        """Reset each connection once so many bytes have gone from the server to the client; None: never."""
        self._do(self._set_cut_after(size_bytes))

    def slow_down(self, bytes_per_second: float) -> None:
        """Let no more than so many bytes through a second, of each connection and direction."""
        self._do(self._set_pace(1 / bytes_per_second))

    def refuse_after_sent(self, size_bytes: int) -> None:
        """Once so many bytes have gone from clients to the server, counted from now and over all connections: `refuse`."""
        self._do(self._set_refuse_after(size_bytes))

    def swallow_reply_to(self, request: bytes) -> None:
        """Pass the next chunk that contains `request` on, wait for its answer, and reset instead of passing it back.

        This is a commit whose answer is lost. Once; `swallowed` counts.
        """
        self._do(self._set_swallow(request))

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._prepare())
        self.forward()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _prepare(self) -> None:
        self._flow = asyncio.Event()

    async def _forward(self) -> None:
        self._cut_after_bytes = None
        self._seconds_per_byte = 0.0
        self._flow.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _stall(self) -> None:
        self._flow.clear()

    async def _cut(self) -> None:
        for writer in list(self._open):
            _reset(writer)

    async def _set_cut_after(self, size_bytes: int | None) -> None:
        self._cut_after_bytes = size_bytes

    async def _set_pace(self, seconds_per_byte: float) -> None:
        self._seconds_per_byte = seconds_per_byte

    async def _passes(self, size_bytes: int) -> None:
        """Until a chunk of this size may go on."""
        await self._flow.wait()
        if self._seconds_per_byte:
            await asyncio.sleep(size_bytes * self._seconds_per_byte)

    async def _set_refuse_after(self, size_bytes: int) -> None:
        self._refuse_after_bytes_sent = size_bytes

    async def _count_sent(self, size_bytes: int) -> None:
        if self._refuse_after_bytes_sent is None:
            return
        self._refuse_after_bytes_sent -= size_bytes
        if self._refuse_after_bytes_sent <= 0:
            self._refuse_after_bytes_sent = None
            await self._refuse()

    async def _set_swallow(self, request: bytes) -> None:
        self._swallow_reply_to = request

    async def _close(self) -> None:
        await self._refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            self._open.discard(writer)
            self._tasks.discard(task)
            return
        self._open.add(up_writer)
        pair = _Pair(self, reader, writer, up_reader, up_writer)
        try:
            await pair.run()
        except asyncio.CancelledError:
            pass  # the proxy closes; a cancelled handler would be reported by asyncio's server
        finally:
            _reset(writer)
            _reset(up_writer)
            self._open -= {writer, up_writer}
            self._tasks.discard(task)


class _Pair:
    """One connection from the client and the one to the server that goes with it."""

    def __init__(
        self,
        proxy: CuttingProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._up_reader, self._up_writer = up_reader, up_writer
        self._swallow = False

    async def run(self) -> None:
        """Until one side ends or the proxy cuts."""
        pumps = [asyncio.create_task(self._upwards()), asyncio.create_task(self._downwards())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _upwards(self) -> None:
        while data := await _read(self._reader):
            await self._proxy._passes(len(data))
            wanted = self._proxy._swallow_reply_to
            if wanted is not None and wanted in data:
                self._proxy._swallow_reply_to = None
                self._swallow = True
            self._up_writer.write(data)
            await self._up_writer.drain()
            await self._proxy._count_sent(len(data))

    async def _downwards(self) -> None:
        sent_bytes = 0
        while data := await _read(self._up_reader):
            await self._proxy._passes(len(data))
            if self._swallow:
                self._proxy.swallowed += 1
                return
            limit = self._proxy._cut_after_bytes
            if limit is not None and sent_bytes + len(data) >= limit:
                self._writer.write(data[: limit - sent_bytes])
                await self._writer.drain()
                return
            self._writer.write(data)
            await self._writer.drain()
            sent_bytes += len(data)
        # the server closed in order: let the client read the rest before it is reset
        if self._writer.can_write_eof():
            self._writer.write_eof()
        await _read(self._reader)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK_BYTES)
    except OSError:
        return b""


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, so that the peer notices at once."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
