"""One watched task or album in this process: what has been published of it, and to whom."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lingxi.observability.logging import get_logger
from lingxi.stream import frames
from lingxi.stream.cursor import ALL, After, Point, Resume, settled
from lingxi.stream.frames import Block
from lingxi.stream.log import Entry, FrameLog
from lingxi.stream.page import Page
from lingxi.stream.subject import Key, Subject

if TYPE_CHECKING:
    from lingxi.stream.watcher import Watcher

PROGRESS_SECONDS = 0.25  # between two `progress` frames: four a second, and one when a watcher joins
ITEM_PROGRESS_SECONDS = 0.02  # of the words of many items; a worker says no more than five a second of one
WATCHERS_A_SECOND = 20_000  # are told of items at most: with thousands of watchers words come more rarely
MAX_PENDING_ITEM_PROGRESS = 200
OFFERS_AT_ONCE = 500

log = get_logger("stream.channel")


class Channel:
    """The published frames of one task or album (for one audience) and its watchers.

    `seen` is the point up to which changes were published: every item or photo is in the log (or was, and is
    now in the rows) with a state at least as new as its row had at `seen`, because numbers only grow: one that changes
    again gets a number beyond `seen`.
    """

    def __init__(
        self,
        key: Key,
        *,
        log_bytes: int,
        on_shown: Callable[[Sequence[UUID]], None],
        on_told: Callable[[Key, int], None] = lambda key, number: None,
    ) -> None:
        self.key = key
        self.on_shown = on_shown  # told of photos whose frames were handed to a connection
        self.on_told = on_told  # told up to which number watchers have been told
        self.subject: Subject | None = (
            None  # None until the first read; stays None when there is no such thing
        )
        self.seen: Point = ALL
        self.log = FrameLog(ALL, limit_bytes=log_bytes)
        self.watchers: set[Watcher] = set()
        self.joins: list[asyncio.Future[None]] = []  # wait for a read that begins after they asked
        self.held = 0  # openings in progress: the channel is kept for them
        self.written_at = asyncio.get_running_loop().time()
        self._snapshot: bytes | None = None
        self._progress: bytes | None = None
        self._progress_pending = False
        self._item_progress: dict[str, bytes] = {}
        self._flushed_at = 0.0
        self._flush: asyncio.TimerHandle | None = None
        self._items_flushed_at = 0.0
        self._items_flush: asyncio.TimerHandle | None = None

    @property
    def is_settled(self) -> bool:
        """Is all that was read published?"""
        return self.subject is not None and self.seen >= settled(self.subject.cursor)

    @property
    def has_ended(self) -> bool | None:
        """Have those who watch been told of an end? None before the first read."""
        return None if self.subject is None else self.subject.final and self.is_settled

    @property
    def is_idle(self) -> bool:
        return not (self.watchers or self.joins or self.held)

    def can_answer(self, resume: Resume) -> bool:
        """Can a connection be answered from memory? Not with an end that a retry may have undone, nor about an id
        beyond what we know, nor with a snapshot that was not read whole.
        """
        if self.subject is None or self.subject.final:
            return False
        return resume.number <= self.subject.cursor if isinstance(resume, After) else self.subject.whole

    def snapshot(self) -> bytes:
        """The `snapshot` frame of the latest state."""
        if self._snapshot is None:
            assert self.subject is not None
            self._snapshot = self.subject.snapshot()
        return self._snapshot

    def progress(self) -> bytes:
        """The `progress` frame of the latest state."""
        if self._progress is None:
            assert self.subject is not None
            self._progress = self.subject.progress()
        return self._progress

    def publish(self, page: Page) -> None:
        """Take what a read brought: what changed after `seen`, and the subject as it was in the same moment."""
        before, self.subject = self.subject, page.subject.after(self.subject)
        self._snapshot = self._progress = None
        if before is None:  # whoever waits for this first read starts from here
            self.seen = self.log.floor = settled(page.subject.cursor)
            return
        if page.subject.gone:
            self._cancel_flush()
            for watcher in list(self.watchers):
                watcher.stop()
            return
        if (
            before.final and page.subject.cursor > before.cursor
        ):  # a new round: who comes now is not to meet the old end
            self.log.floor = max(self.log.floor, settled(before.cursor))
        self.seen = max(self.seen, page.last)
        entries = [Entry(block) for block in page.blocks]
        if page.complete and page.subject.final:
            self._cancel_flush()
            entries.append(Entry(Block(page.end_frame), ends=page.subject.cursor))
        else:
            self._progress_pending = True
            if frames_due := self._take_due():
                entries[-1:] = [
                    Entry(entries[-1].block.followed_by(frames_due) if entries else Block(frames_due))
                ]
        self._write(entries)
        if self.watchers:
            self.on_told(self.key, self.seen[0])

    def take_joins(self) -> list[asyncio.Future[None]]:
        """Those that the read which begins now will answer."""
        joins, self.joins = self.joins, []
        return joins

    def fail(self, error: Exception) -> None:
        """There will be no answer for those that wait to join."""
        for answered in self.take_joins():
            if not answered.done():
                answered.set_exception(error)

    def note_item_progress(self, payload: Mapping[str, Any]) -> None:
        """An item's own progress: at once, unless words of this channel went out right before; then the latest of each item."""
        if self.subject is None or self.subject.final:
            return
        item_id = str(payload.get("itemId"))
        if item_id in self._item_progress or len(self._item_progress) < MAX_PENDING_ITEM_PROGRESS:
            self._item_progress[item_id] = frames.item_progress(payload)
        if self._items_flush is not None:
            return
        loop = asyncio.get_running_loop()
        pause = min(max(ITEM_PROGRESS_SECONDS, len(self.watchers) / WATCHERS_A_SECOND), PROGRESS_SECONDS)
        wait = self._items_flushed_at + pause - loop.time()
        if wait > 0:
            self._items_flush = loop.call_later(wait, self._flush_items)
        else:
            self._flush_items()

    def heartbeat(self) -> None:
        """Say that the connection lives."""
        self._write([Entry(Block(frames.HEARTBEAT))])

    def close(self) -> None:
        """No more frames: nobody watches."""
        self._cancel_flush()

    def _take_due(self) -> bytes:
        """The coalesced frames if their time has come; else a timer is set, and nothing is due."""
        if not self._progress_pending:
            return b""
        loop = asyncio.get_running_loop()
        wait = self._flushed_at + PROGRESS_SECONDS - loop.time()
        if wait > 0:
            if self._flush is None:
                self._flush = loop.call_later(wait, self._flush_late)
            return b""
        return self._take(loop.time())

    def _take(self, now: float) -> bytes:
        due = self.progress() if self._progress_pending else b""
        self._progress_pending = False
        self._flushed_at = now
        return due

    def _flush_items(self) -> None:
        self._items_flush = None
        words = b"".join(self._item_progress.values())
        self._item_progress.clear()
        self._items_flushed_at = asyncio.get_running_loop().time()
        if words:
            self._write([Entry(Block(words))])

    def _flush_late(self) -> None:
        self._flush = None
        if due := self._take(asyncio.get_running_loop().time()):
            self._write([Entry(Block(due))])

    def _cancel_flush(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._items_flush is not None:
            self._items_flush.cancel()
            self._items_flush = None
        self._progress_pending = False
        self._item_progress.clear()

    def _write(self, entries: list[Entry]) -> None:
        if not entries:  # changes that this audience is not told of
            return
        self.log.append(entries)
        self.written_at = asyncio.get_running_loop().time()
        self._fan_out(list(self.watchers))

    def _fan_out(self, watchers: list["Watcher"]) -> None:
        """Some at a time, so that others have their turn in between. Each reads on from its own offset,
        whatever came meanwhile.
        """
        for watcher in watchers[-OFFERS_AT_ONCE:]:
            try:
                watcher.offer()
            except Exception:  # one connection's trouble is not to keep the others from their frames
                log.exception("stream_offer_failed")
                watcher.stop()
        del watchers[-OFFERS_AT_ONCE:]
        if watchers:
            asyncio.get_running_loop().call_soon(self._fan_out, watchers)
