"""The event streams of one API process: who watches what, and all that happens to them together.

A channel for each watched task, and for each audience of a watched album (`channel`), is fed by one poll for all (`poll`);
a watcher for each connection (`watcher`) follows its channel's log, and reads rows when it stands further back (`catch_up`).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import orjson

from lingxi.domain.errors import NotFound, OverLimit, PostgresUnavailable
from lingxi.domain.ids import parse_uuid, split_item_id
from lingxi.observability.logging import get_logger
from lingxi.stream import frames
from lingxi.stream.catch_up import CatchUp
from lingxi.stream.channel import Channel
from lingxi.stream.config import HubConfig, HubCounts
from lingxi.stream.cursor import After, Fresh, Resume, parse_last_event_id, settled
from lingxi.stream.first_frames import FirstFrames, WriteTimes
from lingxi.stream.page import Reader
from lingxi.stream.places import Places
from lingxi.stream.poll import Poll
from lingxi.stream.subject import AlbumKey, Key
from lingxi.stream.traced import FindTraces, FrameSpans, no_traces
from lingxi.stream.watcher import Send, SendNow, Watcher

_RETRY_MILLISECONDS = (1_000, 3_000)  # clients that were cut off together come back spread over this

CheckAccess = Callable[[Sequence[Hashable]], Awaitable[set[Hashable]]]

log = get_logger("stream.hub")
__all__ = ["Hub", "HubConfig", "HubCounts"]


class Hub:
    """All event streams of this process. `start` it on the event loop that serves them; `close` it before the
    server stops.

    `poll_reader` and `page_reader` read for the two loops, each on its own connection; `check_access` answers
    which of the given grants (opaque and hashable: whatever the API opened the streams with) still hold;
    `write_first_frames` stores when photos were first sent to a viewer, `find_traces` reads which traces tasks belong to.
    """

    def __init__(
        self,
        poll_reader: Reader,
        page_reader: Reader,
        check_access: CheckAccess,
        config: HubConfig | None = None,
        *,
        write_first_frames: WriteTimes | None = None,
        find_traces: FindTraces = no_traces,
    ) -> None:
        self.config = config or HubConfig()
        self.counts = HubCounts()
        self._readers = (poll_reader, page_reader)
        self._check_access = check_access
        self._channels: dict[Key, Channel] = {}
        self._poll = Poll(poll_reader, self._channels, self.config.poll_seconds, self.counts.told_of_end)
        self._access_doubted = asyncio.Event()
        self._running: dict[Watcher, asyncio.Task[Any] | None] = {}
        self._left = asyncio.Event()  # a watcher has left
        self._places = Places(self.config.streams_per_grant, self.config.streams_per_address)
        self._tasks: list[asyncio.Task[None]] = []
        self._catch_up = CatchUp(page_reader, on_read=self._count_page)
        self._first_frames = FirstFrames(write_first_frames)
        self._frame_spans = FrameSpans(find_traces)
        self._closing = False

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start the loops on the running event loop."""
        loops = (
            self._poll.run(),
            self._keep(),
            self._watch_access(),
            self._catch_up.run(),
            self._first_frames.run(),
            self._frame_spans.run(),
        )
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def close(self) -> None:
        """Tell everybody `closing`, end every stream, stop polling. What cannot take the frame in time is cut off."""
        self._closing = True
        goodbye = frames.closing()
        for watcher in list(self._running):
            watcher.stop(goodbye)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.close_seconds):
                while self._running:
                    self._left.clear()
                    await self._left.wait()
        for watcher, task in list(self._running.items()):
            self._cut(watcher, task)
        for loop in self._tasks:
            loop.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError):  # best effort: the servers may be going away, too
            async with asyncio.timeout(self.config.close_seconds):
                await self._first_frames.write()
                await self._frame_spans.write()
        for channel in self._channels.values():
            channel.fail(PostgresUnavailable("This server is going away."))
            channel.close()
        for reader in self._readers:
            with suppress(Exception):
                await reader.close()

    @property
    def polls(self) -> int:
        """Statements of the poll so far."""
        return self._poll.count

    @property
    def watchers(self) -> int:
        """Open streams."""
        return len(self._running)

    @property
    def tasks(self) -> int:
        """Tasks that are watched."""
        return len(self._channels) - sum(isinstance(key, AlbumKey) for key in self._channels)

    @property
    def albums(self) -> int:
        """Albums that are watched."""
        return len({key.album_id for key in self._channels if isinstance(key, AlbumKey)})

    def open_by_kind(self) -> dict[str, int]:
        """Open streams: of tasks, of albums by members, of albums by share links."""
        counts = {"task": 0, "album": 0, "share": 0}
        for key, channel in self._channels.items():
            kind = "task" if not isinstance(key, AlbumKey) else "share" if key.shared else "album"
            counts[kind] += len(channel.watchers)
        return counts

    # ── hints ────────────────────────────────────────────────────────────────────────────────────────────

    def hint(self, keys: Iterable[Key]) -> None:
        """These changed: poll them as soon as the pace allows."""
        for key in keys:
            if key in self._channels:
                self._poll.ask_for(key)

    def hint_albums(self, album_ids: Iterable[UUID]) -> None:
        """These albums changed, for whomever."""
        self.hint([AlbumKey(album_id, shared) for album_id in album_ids for shared in (False, True)])

    def hint_all(self) -> None:
        """Hints may have been lost: look at everything."""
        self.hint(list(self._channels))

    def hint_access(self) -> None:
        """A token or a share was revoked: check all open streams now."""
        self._access_doubted.set()

    def item_progress(self, payload: bytes) -> None:
        """The JSON of an itemProgress frame, as a worker published it; nonsense is dropped."""
        with suppress(orjson.JSONDecodeError, AttributeError, TypeError):
            data: Mapping[str, Any] = orjson.loads(payload)
            item_id = parse_uuid(data.get("itemId", ""))
            if item_id is not None and (channel := self._channels.get(split_item_id(item_id)[0])) is not None:
                channel.note_item_progress(data)

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────

    async def open(
        self,
        key: Key,
        *,
        workspace_id: UUID,
        grant: Hashable,
        last_event_id: str | None,
        address: str | None = None,
    ) -> Watcher | None:
        """A watcher, to be `serve`d; None when the id is the end that this finished task still has (204).

        Raises NotFound (also for what is another workspace's), OverLimit (too many streams of this grant or from this
        address are open) and PostgresUnavailable.
        """
        resume = parse_last_event_id(last_event_id)
        channel = self._hold(key)
        try:
            if not channel.can_answer(resume):
                if self._closing:
                    raise PostgresUnavailable("This server is going away.")
                await self._poll.after_now(channel)
            subject = channel.subject
            if subject is None or subject.gone or subject.workspace_id != workspace_id:
                raise NotFound
            watcher = self._watcher(channel, grant, resume)
            if watcher is not None:
                self._enter(watcher, address)
            return watcher
        finally:
            channel.held -= 1
            self._drop_if_idle(channel)

    async def serve(self, watcher: Watcher, send: Send, send_now: SendNow | None = None) -> None:
        """Run an opened watcher in the current task until its stream ends, then forget it.

        `send_now` writes at once, or answers False: then `send`, which may wait, is used.
        """
        self._running[watcher] = asyncio.current_task()
        try:
            await watcher.run(send, send_now)
        finally:
            self.leave(watcher)

    def leave(self, watcher: Watcher) -> None:
        """Forget a watcher; the last one takes its channel along."""
        if self._running.pop(watcher, self) is not self:
            self._left.set()
            self._places.leave(watcher)
            self.counts.fell_behind += watcher.times_behind
            watcher.channel.watchers.discard(watcher)
            self._drop_if_idle(watcher.channel)

    def _hold(self, key: Key) -> Channel:
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = Channel(
                key,
                log_bytes=self.config.log_bytes,
                on_shown=self._first_frames.note,
                on_told=self._frame_spans.note,
            )
        channel.held += 1
        return channel

    def _enter(self, watcher: Watcher, address: str | None) -> None:
        try:
            self._places.take(watcher, address)
        except OverLimit:
            self.counts.refused += 1
            raise
        self.counts.opened += 1
        watcher.channel.watchers.add(watcher)
        self._running[watcher] = None
        if self._closing:
            watcher.stop(frames.closing())

    def _watcher(self, channel: Channel, grant: Hashable, resume: Resume) -> Watcher | None:
        subject = channel.subject
        assert subject is not None
        parts = [frames.retry(random.randint(*_RETRY_MILLISECONDS))]
        over = False
        if isinstance(resume, Fresh):
            parts.append(channel.snapshot())
            seen, over = settled(subject.cursor), subject.final
            if over:
                parts.append(subject.end())
        elif isinstance(resume, After) and resume.number <= subject.cursor:
            if resume.number == subject.cursor and subject.final:
                return None
            seen = settled(resume.number)
            if not subject.final:
                parts.append(channel.progress())
        else:
            seen = settled(0)
            parts += (frames.reset(), subject.snapshot(with_id=False))
        return Watcher(
            channel,
            grant,
            self._catch_up,
            opening=b"".join(parts),
            seen=seen,
            over=over,
            heartbeat_seconds=self.config.heartbeat_seconds,
        )

    def _drop_if_idle(self, channel: Channel) -> None:
        if channel.is_idle and self._channels.get(channel.key) is channel:
            channel.close()
            del self._channels[channel.key]

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────────────

    async def _keep(self) -> None:
        """Heartbeats into silent logs, logs trimmed; now and then, connections ended that take nothing."""
        loop = asyncio.get_running_loop()
        scan_at = loop.time()
        while True:
            await asyncio.sleep(min(1.0, self.config.heartbeat_seconds / 4))
            now = loop.time()
            for channel in self._channels.values():
                channel.log.trim()
                if channel.watchers and now - channel.written_at >= self.config.heartbeat_seconds:
                    channel.heartbeat()
            if now >= scan_at:
                scan_at = now + self.config.send_timeout_seconds / 6
                self._cut_stalled(now)

    def _cut_stalled(self, now: float) -> None:
        for watcher, task in list(self._running.items()):
            since = watcher.blocked_since
            if since is not None and now - since > self.config.send_timeout_seconds:
                self.counts.stalled += 1
                self._cut(watcher, task)

    def _cut(self, watcher: Watcher, task: asyncio.Task[Any] | None) -> None:
        watcher.cut = True
        if task is None:  # opened and never served
            self.leave(watcher)
        else:
            task.cancel()

    async def _watch_access(self) -> None:
        """Streams whose grant does not hold any more are ended: at the latest after the interval, at once when
        doubted.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.config.access_check_seconds):
                    await self._access_doubted.wait()
            self._access_doubted.clear()
            asked = {watcher.grant for watcher in self._running}
            if not asked:
                continue
            try:
                refused = asked - await self._check_access(list(asked))
            except Exception as error:  # e.g. the database is away: nobody is thrown out for that
                log.warning("stream_access_check_failed", error=str(error))
                await asyncio.sleep(self.config.access_check_seconds / 10)
                self._access_doubted.set()
                continue
            for watcher in [w for w in self._running if w.grant in refused]:  # not those that came meanwhile
                self.counts.revoked += 1
                watcher.stop()

    def _count_page(self) -> None:
        self.counts.pages += 1
