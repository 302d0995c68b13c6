"""Watchers that are cut off at random and resume by the last number that they saw; they speak HTTP and SSE by themselves."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 10.0  # a heartbeat comes each two seconds
_AGAIN_SECONDS = 0.3
_LAST_AT_ONCE = 30


class Refused(Exception):
    """The stream was not opened; `status` says why (204: it is over)."""

    def __init__(self, status: int) -> None:
        super().__init__(f"refused: {status}")
        self.status = status


@dataclass
class View:
    """What one watcher knows of one task or album."""

    path: str
    last: int = 0
    states: dict[str, Any] = field(default_factory=dict)  # item's or photo's id → what was said last
    ended: dict[str, Any] | None = None
    backwards: int = 0  # frames whose number was not greater than one before

    def take(self, event: str, number: int | None, data: Any) -> None:
        """One frame."""
        if event == "reset":
            self.last, self.states, self.ended = 0, {}, None
            return
        if number is not None and event != "snapshot":
            self.backwards += number < self.last
        if event == "item":
            self.states[data["itemId"]] = data["state"]
            self.ended = None
        elif event == "photo":
            self.states[data["id"]] = (data["processingState"], data["entityVersion"])
        elif event == "removed":
            self.states.pop(data["id"], None)
        elif event == "end":
            self.ended = data
        if number is not None:
            self.last = number  # as a browser does, whatever it is


class Watchers:
    """`count` watchers of what `subjects()` names; `run()` until cancelled, then `catch_up()`."""

    def __init__(
        self, port: int, token: str, subjects: Callable[[], list[str]], count: int, seed: int
    ) -> None:
        self._port, self._token, self._subjects = port, token, subjects
        self._dice = [random.Random(f"watcher {seed} {number}") for number in range(count)]
        self._views: list[dict[str, View]] = [{} for _ in range(count)]
        self.connections = 0

    @property
    def views(self) -> list[View]:
        return [view for views in self._views for view in views.values()]

    async def run(self) -> None:
        """Watch, be cut off, resume."""
        await asyncio.gather(*(self._watch(number) for number in range(len(self._dice))))

    async def _watch(self, number: int) -> None:
        dice, views = self._dice[number], self._views[number]
        while True:
            subjects = self._subjects()
            if not subjects:
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            few = list(views) if len(views) >= 4 else subjects
            view = views.setdefault(path := dice.choice(few), View(path))
            try:
                async with asyncio.timeout(0.1 + dice.expovariate(0.4)):
                    await self._follow(view)
            except (TimeoutError, OSError, EOFError, Refused):
                pass
            await asyncio.sleep(dice.uniform(0.0, _AGAIN_SECONDS))

    async def catch_up(self, cursors: dict[str, int], timeout_seconds: float) -> None:
        """Resume every view once more, until it has all that `cursors` (path → number) says there is."""
        slots = asyncio.Semaphore(_LAST_AT_ONCE)

        async def last(view: View) -> None:
            async with slots, asyncio.timeout(timeout_seconds):
                while view.last < cursors.get(view.path, 0):
                    try:
                        await self._follow(view, until=cursors[view.path])
                    except (TimeoutError, OSError, EOFError):
                        await asyncio.sleep(_AGAIN_SECONDS)
                    except Refused as refused:
                        if refused.status == 204:
                            return
                        await asyncio.sleep(_AGAIN_SECONDS)

        await asyncio.gather(*(last(view) for view in self.views), return_exceptions=True)

    async def _follow(self, view: View, until: int | None = None) -> None:
        """One connection, to its end."""
        self.connections += 1
        async with open_stream(self._port, self._token, f"{view.path}/events", view.last) as frames:
            async for event, number, data in frames:
                view.take(event, number, data)
                if until is not None and view.last >= until:
                    return


@asynccontextmanager
async def open_stream(
    port: int, token: str, path: str, last: int
) -> AsyncIterator[AsyncIterator[tuple[str, int | None, Any]]]:
    """An open event stream's frames. Raises OSError or EOFError when it cannot be reached, Refused when it is not opened."""
    async with asyncio.timeout(_CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        writer.write(
            f"GET /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            f"Accept: text/event-stream\r\nLast-Event-ID: {last}\r\n\r\n".encode()
        )
        async with asyncio.timeout(_CONNECT_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status != 200:
            raise Refused(status)
        yield _frames(_lines(reader, b"chunked" in head.lower()))
    except asyncio.IncompleteReadError as error:
        raise EOFError from error
    finally:
        writer.transport.abort()


async def _lines(reader: asyncio.StreamReader, chunked: bool) -> AsyncIterator[bytes]:
    rest = b""
    while True:
        async with asyncio.timeout(_SILENCE_SECONDS):
            if chunked:
                size = int(await reader.readuntil(b"\r\n"), 16)
                data = (await reader.readexactly(size + 2))[:-2]
            else:
                data = await reader.read(1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")


async def _frames(lines: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, int | None, Any]]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.decode().partition(":")
            fields[name] = value.removeprefix(" ")
        elif "event" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield fields["event"], number, json.loads(fields.get("data", "null"))
            fields = {}
        else:
            fields = {}
