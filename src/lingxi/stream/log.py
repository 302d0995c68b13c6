"""The recent frames of one watched task, shared by all its watchers.

A watcher holds no queue: it holds an offset into this log and reads on when it has sent what it took. So a slow
reader costs no memory, and whoever falls behind the log's beginning reads the rows of the database instead
(`catch_up`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lingxi.stream.cursor import Point
from lingxi.stream.frames import Block


@dataclass(frozen=True, slots=True)
class Entry:
    """A block in the log. `ends` is the number of the task's end when this is the `end` frame."""

    block: Block
    ends: int | None = None


class FrameLog:
    """Entries by offset, the oldest dropped beyond `limit_bytes`; `floor`: all changes of items after it are here."""

    def __init__(self, floor: Point, *, limit_bytes: int) -> None:
        self.floor = floor
        self.start = 0
        self._entries: list[Entry] = []
        self._limit_bytes = limit_bytes
        self._bytes = 0

    @property
    def end(self) -> int:
        """The offset of the entry that comes next."""
        return self.start + len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def append(self, entries: Iterable[Entry]) -> None:
        """Add what was published together. It stays whole until the next `append` or `trim`, so that whoever
        keeps up loses nothing.
        """
        self.trim()
        for entry in entries:
            self._entries.append(entry)
            self._bytes += len(entry.block.body)

    def trim(self) -> None:
        """Drop the oldest entries beyond the limit."""
        drop = 0
        while self._bytes > self._limit_bytes and drop < len(self._entries):
            block = self._entries[drop].block
            self._bytes -= len(block.body)
            self.floor = max(self.floor, block.last)
            drop += 1
        if drop:
            del self._entries[:drop]
            self.start += drop

    def get(self, offset: int) -> Entry | None:
        """The entry at an offset that is not before `start`; None when it has not been written yet."""
        index = offset - self.start
        return self._entries[index] if index < len(self._entries) else None

    def offset_after(self, seen: Point) -> int | None:
        """Where a watcher that has seen all up to `seen` reads on; None when the log does not reach back so far."""
        if seen < self.floor:
            return None
        for index in range(len(self._entries) - 1, -1, -1):
            block = self._entries[index].block
            if block.points and block.last <= seen:
                return self.start + index + 1
        return self.start
