"""Signals of a process that stops in order at the first, and at once at the second.

Handlers are Python's own (`signal.signal`), not the event loop's: they run even while something blocks the loop.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl


class StopSignals:
    """`first` runs in the handler of the first signal: keep it short. At the second, `second` runs and the process ends."""

    def __init__(
        self,
        first: Callable[[], None],
        *,
        second: Callable[[], None] = lambda: None,
        numbers: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT),
        echo_seconds: float = 0.0,
    ) -> None:
        """What comes within `echo_seconds` of the first is the first once more: the kernel tells of a parent's death for each of
        the parent's threads that the child is handed on to while they die."""
        self._first, self._second = first, second
        self._echo_seconds, self._echoes_until = echo_seconds, 0.0
        self._numbers = numbers
        self._received = 0

    def install(self) -> None:
        """From the main thread."""
        for number in self._numbers:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._received += 1
        if self._received == 1:
            self._echoes_until = time.monotonic() + self._echo_seconds
            self._first()
        elif time.monotonic() >= self._echoes_until:
            self._second()
            os._exit(128 + number)


def die_with_parent(parent_pid: int) -> None:
    """Be stopped by SIGTERM when the parent ends, however it ends; at once when it has ended already.

    The kernel watches the *thread* that started us, so parents start children from their main thread.
    """
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGTERM)


def outlive_parent() -> None:
    """The parent's death means nothing any more: this process stops already. Safe in a signal handler."""
    _PRCTL(_PR_SET_PDEATHSIG, 0, 0, 0, 0)
