"""A proxy in this process that cuts connections at random bytes of the answer."""

import asyncio
import random
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class RandomCuts:
    """Listens on a loopback port, forwards to the server of `url`, and resets each connection after a random
    number of bytes.

    `shortest` and `longest` are bytes of the answer. Only for plain HTTP. An async context manager.
    """

    def __init__(self, url: str, *, shortest: int, longest: int, seed: int) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 80)
        self._range = (shortest, longest)
        self._random = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.cuts = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._open.add(writer)
        request: asyncio.Task[None] | None = None
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
            self._open.add(up_writer)
            try:
                request = asyncio.create_task(_forward(reader, up_writer))
                await self._answer(up_reader, writer)
            finally:
                up_writer.transport.abort()
                self._open.discard(up_writer)
        except OSError:
            pass
        finally:
            if request is not None:
                request.cancel()
            writer.transport.abort()
            self._open.discard(writer)

    async def _answer(self, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._random.randint(*self._range)
        while left > 0 and (chunk := await upstream.read(min(left, 65536))):
            writer.write(chunk)
            await writer.drain()
            left -= len(chunk)
        if left <= 0:
            self.cuts += 1
            await asyncio.sleep(
                0.01
            )  # what was written before the cut arrives: a proxy that goes away loses no sent bytes
        else:
            writer.close()
            await writer.wait_closed()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
