"""Following an event stream, a task's to its end or an album's, across lost connections, closing servers and resets."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Generic, TypeVar

import httpx

from lingxi.client.errors import ApiError, Unreachable
from lingxi.client.frames import Closing, End, Frame, Reconnecting, Reset, parse_frame
from lingxi.client.model import Task
from lingxi.client.sse import EventParser, ServerSentEvent

# Three heartbeats (15 s each) without a byte: the connection is dead, even if TCP has not noticed.
SILENCE_SECONDS = 45.0
FIRST_DELAY_SECONDS = 0.25
LONGEST_DELAY_SECONDS = 10.0

OpenStream = Callable[[str | None], AbstractAsyncContextManager[httpx.Response]]
GetTask = Callable[[], Awaitable[Task]]


class _Lost(Exception):
    """The connection ended without an `end` frame; str() says how."""

    def __init__(self, reason: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


F = TypeVar("F")


class Follower(Generic[F]):
    """One watch of one stream, whose frames are what `parse` makes of its events (None: not of interest).

    `patience_seconds` bounds the time without any frame from a server (None: for ever).
    """

    def __init__(
        self,
        open_stream: OpenStream,
        parse: Callable[[ServerSentEvent], F | None],
        *,
        last_event_id: str | None,
        patience_seconds: float | None,
    ) -> None:
        self._open_stream = open_stream
        self._parse = parse
        self.last_event_id = last_event_id
        self._patience_seconds = patience_seconds
        self._retry_seconds: float | None = None
        self._failures = 0
        self._last_heard = time.monotonic()

    async def frames(self) -> AsyncGenerator[F | Reconnecting, None]:
        """Yields frames until `End`, which an album's stream has not. Raises ApiError on a refusal (4xx), StreamBroken on
        nonsense, Unreachable when patience is over."""
        while True:
            try:
                async with aclosing(self._one_connection()) as connection:
                    async for frame in connection:
                        yield frame
                        if isinstance(frame, End):
                            return
                raise _Lost("The connection was closed")
            except _Lost as lost:
                delay_seconds = self._next_delay(lost)
                silent_seconds = time.monotonic() - self._last_heard
                if self._patience_seconds is not None and silent_seconds > self._patience_seconds:
                    raise Unreachable(
                        f"{lost}; gave up after {silent_seconds:.0f} s without an answer"
                    ) from lost
                yield Reconnecting(str(lost), delay_seconds)
                await asyncio.sleep(delay_seconds)

    async def _one_connection(self) -> AsyncGenerator[F, None]:
        parser = EventParser()
        try:
            async with self._open_stream(self.last_event_id) as response:
                if response.status_code == 204:
                    yield await self._nothing_more()
                    return
                await _refuse_other_than_a_stream(response)
                async for chunk in response.aiter_raw():
                    for event in parser.feed(chunk):
                        frame = self._parse(event)
                        self._heard(parser)
                        if isinstance(frame, Reset):
                            self.last_event_id = None
                        elif event.id is not None:
                            self.last_event_id = event.id
                        if frame is not None:
                            yield frame
                        if isinstance(frame, Closing):
                            return
                    self._heard(parser)
        except httpx.TransportError as error:
            raise _Lost(_sentence(error)) from error

    async def _nothing_more(self) -> F:
        raise Unreachable("The server says that nothing more will come, of a stream that has no end")

    def _heard(self, parser: EventParser) -> None:
        self._failures = 0
        self._last_heard = time.monotonic()
        if parser.retry_ms is not None:
            self._retry_seconds = parser.retry_ms / 1000

    def _next_delay(self, lost: _Lost) -> float:
        """The server's own `retry:` first, then exponential with jitter; `Retry-After` is a floor."""
        base = self._retry_seconds if self._retry_seconds is not None else FIRST_DELAY_SECONDS
        delay = min(LONGEST_DELAY_SECONDS, base * 2.0**self._failures) * random.uniform(0.8, 1.2)
        self._failures = min(self._failures + 1, 10)
        return max(delay, lost.retry_after_seconds or 0.0)


class Watcher(Follower[Frame]):
    """One watch of one task."""

    def __init__(
        self,
        open_stream: OpenStream,
        get_task: GetTask,
        *,
        last_event_id: str | None,
        patience_seconds: float | None,
    ) -> None:
        super().__init__(
            open_stream, parse_frame, last_event_id=last_event_id, patience_seconds=patience_seconds
        )
        self._get_task = get_task

    async def _nothing_more(self) -> Frame:
        """The task ended at the very number we resume from."""
        return End(await self._get_task(), self.last_event_id)


async def _refuse_other_than_a_stream(response: httpx.Response) -> None:
    """4xx ends the watch; 429 and 5xx are worth another try; 200 that is no event stream is a wrong address."""
    if response.status_code == 200:
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "text/event-stream":
            raise Unreachable(
                f"The address answers with {kind or 'no content type'}, not with an event stream"
            )
        return
    error = ApiError.from_answer(response.status_code, response.headers, await response.aread())
    if error.is_refusal and error.status != 429:
        raise error
    raise _Lost(str(error), error.retry_after_seconds)


def _sentence(error: httpx.TransportError) -> str:
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return "The server cannot be reached"
        case httpx.TimeoutException():
            return "The server fell silent"
        case _:
            return "The connection was lost"
