"""Ctrl-C, SIGTERM and SIGHUP as a request to end in order, for commands that have children to end.

The first signal only asks: it is looked at between steps and wakes whoever waits, so that nothing is torn in the
middle. The second one asks to hurry: children are then killed rather than waited for.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """A step was given up because the end was asked for."""


class Interrupts:
    """A context manager, entered on the main thread before the event loop runs."""

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.asked = False
        self.hurry = False
        self._changed: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in self.signals:
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises Interrupted if the end was asked for."""
        if self.asked:
            raise Interrupted

    async def wait(self) -> None:
        """Returns when the end is asked for."""
        while not self.asked:
            await self._change().wait()

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; when the end is asked for first, `work` is cancelled and Interrupted raised."""
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Interrupted
        finally:
            asked.cancel()
            task.cancel()
            await asyncio.gather(task, asked, return_exceptions=True)

    def _change(self) -> asyncio.Event:
        if self._changed is None or self._loop is not asyncio.get_running_loop():
            self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()
        return self._changed

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.hurry, self.asked = self.asked, True
        if self._loop is not None and self._changed is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)
