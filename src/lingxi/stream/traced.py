"""Frames as spans: what a trace ends with, the moment in which a watcher was told. Made only while tracing is on."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from lingxi.observability import tracing
from lingxi.observability.logging import get_logger
from lingxi.stream.subject import Key

FindTraces = Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, str]]]
_MOST_WAITING = 10_000
_PAUSE_SECONDS = 0.2

log = get_logger("stream.traced")


async def no_traces(task_ids: Sequence[UUID]) -> Mapping[UUID, str]:
    """Of a hub that is told of none."""
    return {}


class FrameSpans:
    """`note` what was sent; `run` looks the traces up, many at a time, and writes the spans. None while tracing is off."""

    def __init__(self, find: FindTraces) -> None:
        self._find = find
        self._sent: list[tuple[UUID, int, int]] = []
        self._some = asyncio.Event()

    def note(self, key: Key, number: int) -> None:
        """A task's state as of this number went to those who watch it. (A photo's first frame is told by its timeline.)"""
        if tracing.on() and isinstance(key, UUID) and len(self._sent) < _MOST_WAITING:
            self._sent.append((key, number, time.time_ns()))
            self._some.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(_PAUSE_SECONDS)
            await self.write()

    async def write(self) -> None:
        """The spans of what was noted so far."""
        sent, self._sent = self._sent, []
        self._some.clear()
        if not sent:
            return
        try:
            traces = await self._find(list({task_id for task_id, _, _ in sent}))
        except Exception as error:  # a trace without its end is no reason to disturb a stream
            log.info("frame_spans_lost", count=len(sent), error=type(error).__name__)
            return
        for task_id, number, at_ns in sent:
            if (parent := traces.get(task_id)) is not None:
                span = tracing.begin("frame", parent, at_ns=at_ns, task=task_id, number=number)
                tracing.end(span)
