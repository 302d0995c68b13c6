"""Rows for those that are behind: whoever resumes from an older id, replays everything, or read too slowly.

Watchers of one task or album that wait at the same time share a read: it begins at the point of one of them and serves
all whose point lies within its page. So a thousand clients that come back at once cost a few statements.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lingxi.domain.errors import PostgresUnavailable
from lingxi.observability.logging import get_logger
from lingxi.stream.cursor import Point
from lingxi.stream.pacing import Pacer
from lingxi.stream.page import Ask, Page, Reader
from lingxi.stream.reader import PAGE_ROWS
from lingxi.stream.subject import Key

_SUBJECTS_PER_READ = 8

log = get_logger("stream.catch_up")


class Gone(Exception):
    """The task or album was removed while it was watched."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    seen: Point
    page: asyncio.Future[Page]


class CatchUp:
    """Hands out pages of "what changed after this point"; one read at a time in this process."""

    def __init__(self, reader: Reader, *, on_read: Callable[[], None]) -> None:
        self._reader = reader
        self._on_read = on_read
        self._waiting: dict[Key, list[_Waiter]] = {}
        self._wanted = asyncio.Event()
        self._pacer = Pacer()
        self._turns = 0

    def page(self, key: Key, seen: Point) -> asyncio.Future[Page]:
        """A page read after this call that continues at `seen`: its blocks may begin before, never after. Fails
        with Gone.
        """
        waiter = _Waiter(seen, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, []).append(waiter)
        self._wanted.set()
        return waiter.page

    async def run(self) -> None:
        """Serve for ever; an unavailable database makes watchers wait."""
        while True:
            await self._wanted.wait()
            await self._pacer.turn()
            try:
                await self._read_once()
            except PostgresUnavailable:
                pass  # the poll's loop says so in the log
            except Exception:
                log.exception("stream_page_failed")
            if not self._waiting:
                self._wanted.clear()

    async def _read_once(self) -> None:
        self._turns += 1
        batch: dict[Key, list[_Waiter]] = {}
        for key in list(self._waiting)[:_SUBJECTS_PER_READ]:
            waiters = [waiter for waiter in self._waiting.pop(key) if not waiter.page.done()]
            if waiters:
                batch[key] = waiters
        if not batch:
            return
        asks = [Ask(key, self._start(waiters), PAGE_ROWS, always=True) for key, waiters in batch.items()]
        pages: dict[Key, Page] | None = None
        try:
            with self._pacer:
                pages = await self._reader.read(asks)
            self._on_read()
        finally:
            for ask in asks:
                waiters = batch[ask.key]
                left = waiters if pages is None else _hand_out(pages.get(ask.key), ask.after, waiters)
                if left:  # behind those of others, before those of the same that came meanwhile
                    self._waiting[ask.key] = left + self._waiting.pop(ask.key, [])

    def _start(self, waiters: list[_Waiter]) -> Point:
        """Mostly the furthest behind, as that serves most at once; every other time the longest waiting, so
        that none starves.
        """
        return min(waiter.seen for waiter in waiters) if self._turns % 2 else waiters[0].seen


def _hand_out(page: Page | None, start: Point, waiters: list[_Waiter]) -> list[_Waiter]:
    """Answer those that the page continues; the others are returned."""
    left = []
    for waiter in waiters:
        if waiter.page.done():
            continue
        if page is None or page.subject.gone:
            waiter.page.set_exception(Gone())
        elif start <= waiter.seen and (page.complete or waiter.seen < page.last):
            waiter.page.set_result(page)
        else:
            left.append(waiter)
    return left
