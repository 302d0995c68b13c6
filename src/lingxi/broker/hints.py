"""Hints over Redis pub/sub: they make waiting short, and nothing depends on them. Polling is the floor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors, worker_client
from lingxi.broker.ending import end_tasks
from lingxi.broker.errors import BrokerError
from lingxi.observability.logging import get_logger

log = get_logger("broker.hints")

MAX_QUEUED = (
    1000  # messages that wait for a slow or absent Redis; older ones are dropped: they are only hints
)
_IDS_PER_MESSAGE = 200
_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
_SILENCE_SECONDS = 15.0


class Hints:
    """Publishes hints. Calls return at once, never raise, and keep at most MAX_QUEUED messages in memory."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._queue: dict[tuple[str, bytes], None] = {}  # ordered, and equal hints are one
        self._sender: asyncio.Task[None] | None = None
        self.dropped = 0

    def publish_outbox(self) -> None:
        """There is something to dispatch."""
        self._put(names.HINT_OUTBOX, b"")

    def publish_tasks(self, task_ids: Iterable[object]) -> None:
        """These tasks changed."""
        self._put_ids(names.HINT_TASKS, task_ids)

    def publish_albums(self, album_ids: Iterable[object]) -> None:
        """These albums changed."""
        self._put_ids(names.HINT_ALBUMS, album_ids)

    def publish_access(self) -> None:
        """A token or a share was revoked."""
        self._put(names.HINT_ACCESS, b"")

    def publish_progress(self, message: bytes) -> None:
        """An item's own progress: the JSON of an itemProgress frame."""
        self._put(names.PROGRESS_CHANNEL, message)

    async def close(self) -> None:
        """Send what is left, but not for longer than a second."""
        if self._sender is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._sender

    def _put_ids(self, channel: str, changed: Iterable[object]) -> None:
        ids = [str(one) for one in changed]
        for start in range(0, len(ids), _IDS_PER_MESSAGE):
            self._put(channel, ",".join(ids[start : start + _IDS_PER_MESSAGE]).encode())

    def _put(self, channel: str, message: bytes) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self.dropped += 1
            del self._queue[next(iter(self._queue))]
        self._queue[channel, message] = None
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._queue:
            batch = list(self._queue)
            self._queue.clear()
            try:
                with broker_errors():
                    async with self._client.pipeline(transaction=False) as pipe:
                        for channel, message in batch:
                            pipe.publish(channel, message)
                        await pipe.execute()
            except BrokerError as error:
                self.dropped += len(batch)
                log.debug("hints_dropped", count=len(batch), error=str(error))


class HintListener:
    """Listens to `channels` and calls `on_message(channel, payload)` for each message; connects again by itself.

    `on_message` must be quick and must not raise. `on_connected` is called each time that listening begins: what was
    said before is lost, so look once yourself.
    """

    def __init__(
        self,
        url: str,
        channels: Sequence[str],
        on_message: Callable[[str, bytes], None],
        on_connected: Callable[[], None] = lambda: None,
    ) -> None:
        self._url, self._channels = url, tuple(channels)
        self._on_message, self._on_connected = on_message, on_connected
        self._task: asyncio.Task[None] | None = None
        self.connected = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            await end_tasks(self._task)

    async def _run(self) -> None:
        failures = 0
        while True:
            client = worker_client(self._url, max_connections=1)
            try:
                with broker_errors():
                    await self._listen(client)
            except BrokerError as error:
                failures = 0 if self.connected else failures + 1
                log.debug("hints_lost", error=str(error))
            finally:
                self.connected = False
                with contextlib.suppress(BrokerError), broker_errors():
                    await client.aclose()
            await asyncio.sleep(_PAUSES_SECONDS[min(failures, len(_PAUSES_SECONDS) - 1)])

    async def _listen(self, client: RedisClient) -> None:
        async with client.pubsub() as subscription:
            await subscription.subscribe(*self._channels)
            quiet = False
            while True:
                message = await subscription.get_message(timeout=_SILENCE_SECONDS)
                if message is None:  # a dead peer says nothing either: ask
                    if quiet:
                        raise ConnectionError("the hint connection is silent")
                    quiet = True
                    await subscription.ping()
                    continue
                quiet = False
                if message["type"] == "subscribe" and not self.connected:
                    self.connected = True
                    self._on_connected()
                elif message["type"] == "message":
                    self._on_message(message["channel"], _as_bytes(message["data"]))


def _as_bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data
