"""How often the stream may ask the database."""

import asyncio
import time
from types import TracebackType
from typing import Self

SHORTEST_PAUSE_SECONDS = 0.003
PAUSE_PER_DURATION = (
    4.0  # so one loop of reads takes at most a fifth of one core of the database, however often it is woken
)
LONGEST_PAUSE_SECONDS = 1.0


class Pacer:
    """Keeps a loop's reads apart: each waits until `PAUSE_PER_DURATION` times the duration of the one before
    has passed.
    """

    def __init__(self) -> None:
        self._not_before = 0.0
        self._began = 0.0

    async def turn(self) -> None:
        """Return when the next read may begin."""
        await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = time.monotonic()
        pause = min(
            max(SHORTEST_PAUSE_SECONDS, PAUSE_PER_DURATION * (ended - self._began)), LONGEST_PAUSE_SECONDS
        )
        self._not_before = ended + (LONGEST_PAUSE_SECONDS if error is not None else pause)
