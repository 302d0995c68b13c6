"""Rows for those that are behind: whoever resumes from an older id, replays everything, or read too slowly.

Watchers of one task that wait at the same time share a read: it begins at the point of one of them and serves
all whose point lies within its page. So a thousand clients that come back at once cost a few statements.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from lingxi.domain.errors import PostgresUnavailable
from lingxi.observability.logging import get_logger
from lingxi.stream.cursor import Point
from lingxi.stream.pacing import Pacer
from lingxi.stream.reader import PAGE_ROWS, Ask, Reader, TaskPage

_TASKS_PER_READ = 8

log = get_logger("stream.catch_up")


class TaskGone(Exception):
    """The task was removed while it was watched."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    seen: Point
    page: asyncio.Future[TaskPage]


class CatchUp:
    """Hands out pages of "what changed after this point"; one read at a time in this process."""

    def __init__(self, reader: Reader, *, on_read: Callable[[], None]) -> None:
        self._reader = reader
        self._on_read = on_read
        self._waiting: dict[UUID, list[_Waiter]] = {}
        self._wanted = asyncio.Event()
        self._pacer = Pacer()
        self._turns = 0

    def page(self, task_id: UUID, seen: Point) -> asyncio.Future[TaskPage]:
        """A page read after this call that continues at `seen`: its blocks may begin before, never after. Fails
        with TaskGone.
        """
        waiter = _Waiter(seen, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(task_id, []).append(waiter)
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
        batch: dict[UUID, list[_Waiter]] = {}
        for task_id in list(self._waiting)[:_TASKS_PER_READ]:
            waiters = [waiter for waiter in self._waiting.pop(task_id) if not waiter.page.done()]
            if waiters:
                batch[task_id] = waiters
        if not batch:
            return
        asks = [
            Ask(task_id, self._start(waiters), PAGE_ROWS, always=True) for task_id, waiters in batch.items()
        ]
        pages: dict[UUID, TaskPage] | None = None
        try:
            with self._pacer:
                pages = await self._reader.read(asks)
            self._on_read()
        finally:
            for ask in asks:
                waiters = batch[ask.task_id]
                left = waiters if pages is None else _hand_out(pages.get(ask.task_id), ask.after, waiters)
                if left:  # behind those of other tasks, before those of this task that came meanwhile
                    self._waiting[ask.task_id] = left + self._waiting.pop(ask.task_id, [])

    def _start(self, waiters: list[_Waiter]) -> Point:
        """Mostly the furthest behind, as that serves most at once; every other time the longest waiting, so
        that none starves.
        """
        return min(waiter.seen for waiter in waiters) if self._turns % 2 else waiters[0].seen


def _hand_out(page: TaskPage | None, start: Point, waiters: list[_Waiter]) -> list[_Waiter]:
    """Answer those that the page continues; the others are returned."""
    left = []
    for waiter in waiters:
        if waiter.page.done():
            continue
        if page is None:
            waiter.page.set_exception(TaskGone())
        elif start <= waiter.seen and (page.complete or waiter.seen < page.last):
            waiter.page.set_result(page)
        else:
            left.append(waiter)
    return left
