"""When the first viewer was sent a published photo: the last stage of its timeline.

Best effort: it is written in batches, a little later, without the album's lock or a number of its feed. What PostgreSQL
does not take now, another viewer's frame may bring again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from lingxi.observability.logging import get_logger

BATCH_SECONDS = 1.0
MAX_PENDING = 5_000
_MAX_REMEMBERED = 20_000

WriteTimes = Callable[[Mapping[UUID, datetime]], Awaitable[None]]

log = get_logger("stream.first_frames")


class FirstFrames:
    """Collects photos as they are sent; `run` hands them to `write`, each once."""

    def __init__(self, write: WriteTimes | None) -> None:
        self._write = write
        self._pending: dict[UUID, datetime] = {}
        self._remembered: dict[UUID, None] = {}
        self._wanted = asyncio.Event()

    def note(self, photos: Sequence[UUID]) -> None:
        """These photos' frames were handed to a connection just now."""
        new = [photo for photo in photos if photo not in self._remembered]
        if not new or self._write is None or len(self._pending) >= MAX_PENDING:
            return
        now = datetime.now(UTC)
        for photo in new:
            self._pending[photo] = now
            self._remembered[photo] = None
        while len(self._remembered) > _MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._wanted.set()

    async def run(self) -> None:
        """Write for ever, a batch a second at most."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(BATCH_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write what was noted; what could not be written is forgotten, and may be noted again."""
        self._wanted.clear()
        batch, self._pending = self._pending, {}
        if not batch or self._write is None:
            return
        try:
            await self._write(batch)
        except Exception as error:
            log.warning("first_frames_not_written", photos=len(batch), error=str(error))
            for photo in batch:
                self._remembered.pop(photo, None)
