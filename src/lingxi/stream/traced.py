"""Frames as spans: the last one of a trace, which ends where a watcher was told. Made only while tracing is on."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from lingxi.observability import tracing
from lingxi.observability.logging import get_logger

FindTraces = Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, str]]]
_MOST_WAITING = 10_000
_PAUSE_SECONDS = 0.2

log = get_logger("stream.traced")


class FrameSpans:
    """`note` what was sent; `run` looks the traces up, many at a time, and writes the spans."""

    def __init__(self, find: FindTraces) -> None:
        self._find = find
        self._sent: list[tuple[UUID, int, int]] = []
        self._some = asyncio.Event()

    def note(self, subject: UUID, number: int) -> None:
        """The subject's state as of this number went to whoever watches it. Costs nothing while tracing is off."""
        if tracing.on() and len(self._sent) < _MOST_WAITING:
            self._sent.append((subject, number, time.time_ns()))
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
            traces = await self._find(list({subject for subject, _, _ in sent}))
        except Exception as error:  # a trace without its end is no reason to disturb a stream
            log.info("frame_spans_lost", count=len(sent), error=type(error).__name__)
            return
        for subject, number, at_ns in sent:
            if (parent := traces.get(subject)) is not None:
                span = tracing.begin("frame", parent, "producer", at_ns=at_ns, subject=subject, number=number)
                tracing.end(span)
