"""The poll of one process: what has changed in all that is watched, in one statement for tasks and one for albums.

Everything each `poll_seconds`; between, as soon as the pace allows, what hints, newcomers and subjects of which more had
changed than was read ask for. A poll costs the same whether ten watch or ten thousand; with nobody watching there is
none.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from lingxi.domain.errors import PostgresUnavailable
from lingxi.observability.logging import get_logger
from lingxi.stream.channel import Channel
from lingxi.stream.cursor import END
from lingxi.stream.pacing import Pacer
from lingxi.stream.page import Ask, Reader
from lingxi.stream.reader import POLL_ROWS
from lingxi.stream.subject import Key

_ROWS_PER_POLL = 10_000  # shared by the subjects of one poll
_FEWEST_ROWS_EACH = 20

log = get_logger("stream.poll")


class Poll:
    """Publishes to `channels` (of the hub, which adds and removes them) what it reads of their subjects.

    `on_end` is told how many seconds after its end those who watch a task were told of it.
    """

    def __init__(
        self,
        reader: Reader,
        channels: dict[Key, Channel],
        poll_seconds: float,
        on_end: Callable[[float], None],
    ) -> None:
        self.count = 0
        self.failures = 0
        self._reader = reader
        self._channels = channels
        self._poll_seconds = poll_seconds
        self._on_end = on_end
        self._soon: set[Key] = set()  # not only at the next floor
        self._wanted = asyncio.Event()
        self._pacer = Pacer()
        self._polled_all_at = 0.0
        self._failing = False

    def ask_for(self, key: Key) -> None:
        """Poll this one as soon as the pace allows."""
        self._soon.add(key)
        self._wanted.set()

    async def after_now(self, channel: Channel) -> None:
        """Return after a poll of this channel that began after the call. Raises PostgresUnavailable."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        channel.joins.append(answered)
        self.ask_for(channel.key)
        await answered

    async def run(self) -> None:
        """Poll for ever; an unavailable database is tried again."""
        while True:
            channels = await self._due()
            try:
                await self._once(channels)
            except Exception as error:
                self._note_failure(channels, error)

    async def _due(self) -> list[Channel]:
        """Wait until there is something to ask."""
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(
                    self._polled_all_at + self._poll_seconds if self._channels else None
                ):
                    await self._wanted.wait()
            await self._pacer.turn()
            self._wanted.clear()
            if loop.time() >= self._polled_all_at + self._poll_seconds:
                self._polled_all_at = loop.time()
                due = list(self._channels.values())
            else:
                due = [self._channels[key] for key in self._soon if key in self._channels]
            self._soon.clear()
            if due:
                return due

    async def _once(self, channels: list[Channel]) -> None:
        rows = max(_FEWEST_ROWS_EACH, min(POLL_ROWS, _ROWS_PER_POLL // len(channels)))
        joins = [(channel, channel.take_joins()) for channel in channels]
        asks = [_ask(channel, rows, whole=bool(waiting)) for channel, waiting in joins]
        self.count += 1
        try:
            with self._pacer:
                pages = await self._reader.read(asks)
        except BaseException:
            for channel, waiting in joins:
                channel.joins[:0] = waiting
            raise
        self._failing = False
        for channel in channels:
            if (page := pages.get(channel.key)) is not None:
                ended = channel.has_ended
                channel.publish(page)
                if channel.has_ended and ended is False and page.ended_seconds is not None:
                    self._on_end(page.ended_seconds)
                if not channel.is_settled:
                    self.ask_for(channel.key)
        for _, waiting in joins:
            for answered in waiting:
                if not answered.done():
                    answered.set_result(None)

    def _note_failure(self, channels: list[Channel], error: Exception) -> None:
        """Newcomers are told; who watches keeps watching and is told the rest when the database is back."""
        self.failures += 1
        unavailable = isinstance(error, PostgresUnavailable)
        if not unavailable:
            log.exception("stream_poll_failed")
        elif not self._failing:
            log.warning("stream_poll_unavailable", error=str(error.__cause__))
        self._failing = True
        for channel in channels:
            channel.fail(error if unavailable else RuntimeError("The stream could not be read."))
            self._soon.add(channel.key)


def _ask(channel: Channel, rows: int, *, whole: bool) -> Ask:
    """What follows what was published; of a new channel the subject alone. `whole`: somebody waits for a snapshot."""
    if channel.subject is None:
        return Ask(channel.key, (-1, END), 0, whole=True)
    return Ask(channel.key, channel.seen, rows, whole=whole)
