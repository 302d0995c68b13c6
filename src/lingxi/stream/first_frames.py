"""When the first viewer was sent a published photo: the last stage of its timeline.

Best effort: it is written in batches, a little later, without the album's lock or a number of its feed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from lingxi.observability.logging import get_logger

BATCH_SECONDS = 1.0
MAX_PENDING = 5_000
_MAX_REMEMBERED = 20_000

_TRIES = 3

WriteTimes = Callable[[Mapping[UUID, datetime]], Awaitable[set[UUID]]]

log = get_logger("stream.first_frames")


class FirstFrames:
    """Collects photos as they are sent; `run` hands them to `write`, which answers those that are done with."""

    def __init__(self, write: WriteTimes | None) -> None:
        self._write = write
        self._pending: dict[UUID, datetime] = {}
        self._tries: dict[UUID, int] = {}  # of those that are pending, or were not long ago
        self._wanted = asyncio.Event()

    def note(self, photos: Sequence[UUID]) -> None:
        """These photos' frames were handed to a connection just now."""
        if self._write is None or len(self._pending) >= MAX_PENDING:
            return
        new = [photo for photo in photos if photo not in self._tries]
        if new:
            now = datetime.now(UTC)
            self._pending.update((photo, now) for photo in new)
            self._tries.update((photo, 0) for photo in new)
            self._wanted.set()

    async def run(self) -> None:
        """Write for ever, a batch a second at most."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(BATCH_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write what was noted; what was not taken is tried again, but not for ever."""
        self._wanted.clear()
        batch, self._pending = self._pending, {}
        if not batch or self._write is None:
            return
        done: set[UUID] = set()
        try:
            done = await self._write(batch)
        except Exception as error:
            log.warning("first_frames_not_written", photos=len(batch), error=str(error))
        for photo in batch.keys() - done:
            self._tries[photo] += 1
            if self._tries[photo] < _TRIES:
                self._pending[photo] = batch[photo]
                self._wanted.set()
        while len(self._tries) > _MAX_REMEMBERED and (oldest := next(iter(self._tries))) not in self._pending:
            del self._tries[oldest]
