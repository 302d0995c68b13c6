"""An item's own progress, coalesced: the latest word within 200 ms, and never more than five words a second."""

import asyncio
import math
import operator
import time
from collections.abc import Callable
from typing import Any, Final

from lingxi.domain.decide import clean

INTERVAL_SECONDS = 0.2
MAX_NOTE_CHARACTERS = 200
_LARGEST: Final = (1 << 53) - 1  # of whole numbers that every reader of JSON keeps exactly

Said = tuple[int, int | None, str | None]


def fit_to_say(done: int, total: int | None, note: str | None) -> Said:
    """What JSON can carry, and a short note; TypeError for a `done` or `total` that is no number."""
    return (
        _number(done),
        None if total is None else _number(total),
        None if note is None else clean(str(note))[:MAX_NOTE_CHARACTERS],
    )


def _number(value: Any) -> Any:
    """Also what is not declared and can be told: numpy's whole numbers, and fractions."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else 0.0
    return max(-_LARGEST, min(_LARGEST, operator.index(value)))


class Progress:
    """`publish(done, total, note)` is called at once, or at the end of the interval with what was said last.

    `say` may be called from any thread; `publish` runs on the event loop that this was made on.
    """

    __slots__ = ("_due", "_last", "_latest", "_loop", "_publish", "_timer")

    def __init__(self, publish: Callable[[int, int | None, str | None], None]) -> None:
        self._publish = publish
        self._due = 0.0  # of time.monotonic()
        self._latest: Said | None = None  # said, and not published yet
        self._last: Said | None = None  # published
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def say(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """So far is it."""
        said = fit_to_say(done, total, note)
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            self._take(said)
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, said)

    def flush(self) -> None:
        """The attempt ends: say what waits, and nothing after it."""
        if self._timer is not None:
            self._send()

    def _take(self, said: Said) -> None:
        self._latest = said
        wait_seconds = self._due - time.monotonic()
        if wait_seconds <= 0:
            self._send()
        elif self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(wait_seconds, self._send)

    def _send(self) -> None:
        if self._timer is not None:  # it may be about to fire: its word goes out now
            self._timer.cancel()
            self._timer = None
        said, self._latest = self._latest, None
        if said is None or said == self._last:
            return
        self._last = said
        self._due = time.monotonic() + INTERVAL_SECONDS
        self._publish(*said)
