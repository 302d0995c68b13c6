"""Where a watcher stands: points in a task's changes, and what a `Last-Event-ID` asks for.

A point is (number, position): every change up to it has been seen. Numbers are the task's sequence; positions
only order items that share one, which are those that nothing has happened to since the task was created: they
all carry number 1. A point whose position is END has seen all of its number.
"""

import re
from dataclasses import dataclass

Point = tuple[int, int]

END = 2**31 - 1  # greater than any position; fits PostgreSQL's int
ALL: Point = (0, END)  # before the first change: everything follows
_CANONICAL = re.compile(r"0|[1-9][0-9]{0,17}")


def settled(number: int) -> Point:
    """The point at which every change up to and with `number` has been seen."""
    return (number, END)


@dataclass(frozen=True, slots=True)
class Fresh:
    """No id was given: the task as it is now, then what changes."""


@dataclass(frozen=True, slots=True)
class After:
    """What changed after this number, each in its latest state."""

    number: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """An id that we never sent: told so with a `reset`."""


Resume = Fresh | After | Garbage


def parse_last_event_id(text: str | None) -> Resume:
    """What the client wants. Absent or empty is fresh; only digits as we write them (no sign, space or leading
    zero) are an id.
    """
    if not text:
        return Fresh()
    return After(int(text)) if _CANONICAL.fullmatch(text) else Garbage()
