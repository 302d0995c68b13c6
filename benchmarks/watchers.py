"""Many watchers in one process: raw sockets that only look for the numbers of `item` frames and note when they came.

Run by `sse` as `python -m benchmarks.watchers`. The first input line is JSON `{port, token, paths, watchers, output}`;
watcher n opens paths[n % len(paths)]. It prints `ready` once each has had its snapshot; `stop` ends it, after which
`output` holds JSON `{lost, frames: [[path, watcher, number, time], …]}` with monotonic times in seconds.
"""

import asyncio
import json
import pathlib
import re
import sys
import time
from dataclasses import dataclass, field
from typing import cast

import uvloop

CONNECTING_AT_ONCE = 100
ACCEPTED = b"HTTP/1.1 200 "
ITEM_NUMBER = re.compile(rb"id: (\d+)\r?\nevent: item\r?\n")


@dataclass(slots=True)
class Book:
    """What all watchers saw."""

    frames: list[tuple[int, int, int, float]] = field(default_factory=list)
    lost: int = 0


class Watcher(asyncio.Protocol):
    """One open event stream."""

    def __init__(self, book: Book, path: int, number: int, request: bytes) -> None:
        self.snapshot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closing = False
        self._book = book
        self._path = path
        self._number = number
        self._request = request
        self._rest = b""
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        cast(asyncio.WriteTransport, transport).write(self._request)  # uvloop's is one, but not by its class

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if self._rest:
            data = self._rest + data
        if not self.snapshot.done():
            self._begin(data)
        end = 0
        for match in ITEM_NUMBER.finditer(data):
            self._book.frames.append((self._path, self._number, int(match[1]), now))
            end = match.end()
        cut = data.rfind(b"\n\n")
        self._rest = data[max(end, cut + 2 if cut >= 0 else 0) :]

    def _begin(self, data: bytes) -> None:
        if b"event: snapshot" in data:
            self.snapshot.set_result(None)
        elif len(data) >= len(ACCEPTED) and not data.startswith(ACCEPTED):
            self.snapshot.set_exception(RuntimeError(f"refused: {data[:300].decode('latin-1')!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closing:
            self._book.lost += 1
        if not self.snapshot.done():
            answer = self._rest[:300].decode("latin-1")
            self.snapshot.set_exception(
                RuntimeError(f"the stream was closed before its snapshot: {answer!r}")
            )

    def close(self) -> None:
        self.closing = True
        if self._transport is not None:
            self._transport.close()


async def main() -> None:
    loop = asyncio.get_running_loop()
    asked = json.loads(sys.stdin.readline())
    book = Book()
    slots = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def open_one(number: int) -> Watcher:
        path = number % len(asked["paths"])
        request = (
            f"GET {asked['paths'][path]} HTTP/1.1\r\nHost: 127.0.0.1:{asked['port']}\r\n"
            f"Authorization: Bearer {asked['token']}\r\nAccept: text/event-stream\r\n\r\n"
        ).encode()
        async with slots:
            _, watcher = await loop.create_connection(
                lambda: Watcher(book, path, number, request), "127.0.0.1", asked["port"]
            )
            await watcher.snapshot
        return watcher

    watchers = await asyncio.gather(*(open_one(number) for number in range(asked["watchers"])))
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    for watcher in watchers:
        watcher.close()
    result = {"lost": book.lost, "frames": book.frames}
    pathlib.Path(asked["output"]).write_text(json.dumps(result))
    print("stopped", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
