"""What the hub asks of PostgreSQL, and what it gets: a subject and its next changes, as of one moment."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from lingxi.stream.cursor import Point, settled
from lingxi.stream.frames import Block
from lingxi.stream.subject import Key, Subject


@dataclass(frozen=True, slots=True)
class Ask:
    """One subject to read: what changed in it after a point, at most `rows` changes.

    `always`: also when nothing has changed. `whole`: always, and with all that a snapshot tells.
    """

    key: Key
    after: Point
    rows: int
    always: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Page:
    """A subject and its next changes. Not `complete`: more has changed than was asked for. `ended_seconds`: since when a task
    that has ended has done so, by PostgreSQL's clock.
    """

    subject: Subject
    blocks: Sequence[Block]
    complete: bool
    ended_seconds: float | None = None

    @property
    def last(self) -> Point:
        """The point up to which all was seen by whoever has seen the point asked for and takes this page."""
        return settled(self.subject.cursor) if self.complete else self.blocks[-1].last

    @cached_property
    def end_frame(self) -> bytes:
        return self.subject.end()


class Reader(Protocol):
    """Where the hub reads from. What does not exist, or has not changed, is not in the answer."""

    def read(self, asks: Sequence[Ask]) -> Awaitable[dict[Key, Page]]:
        """Raises PostgresUnavailable."""
        ...

    def close(self) -> Awaitable[None]: ...
