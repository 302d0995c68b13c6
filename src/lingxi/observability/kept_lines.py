"""The last log lines of one piece of work, kept beside the log so that they can be shown where somebody asks why it failed.

Lines are made for people: `14:03:07 warning disk_slow seconds=3`. They have passed the same redaction as the log. Of an exception
only its class and its place are kept: what it says may be about others.
"""

from collections import deque
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any, Final

MOST_LINES: Final = 20
MOST_CHARACTERS: Final = 300
_LEFT_OUT: Final = frozenset(
    (
        *("event", "level", "timestamp", "exception", "traceback"),  # told in another shape, or not
        *("component", "role", "pid", "worker", "task_id", "item_id", "attempt"),  # the same on each line
    )
)

_kept: ContextVar[deque[str] | None] = ContextVar("lingxi_kept_lines", default=None)


def keep_lines() -> deque[str]:
    """What is logged in this context from now on: the last lines, oldest first."""
    lines: deque[str] = deque(maxlen=MOST_LINES)
    _kept.set(lines)
    return lines


def keep(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A step of the logging; the line goes on as it is."""
    lines = _kept.get()
    if lines is not None:
        lines.append(_line(event)[:MOST_CHARACTERS])
    return event


def _line(event: MutableMapping[str, Any]) -> str:
    words = [str(event.get("timestamp", ""))[11:19], str(event.get("level", "")), str(event.get("event", ""))]
    words += [f"{name}={value}" for name, value in event.items() if name not in _LEFT_OUT]
    for raised in event.get("exception") or ():
        frames = raised.get("frames") or [{}]
        words.append(f"{raised.get('exc_type')} in {frames[-1].get('name')}, line {frames[-1].get('lineno')}")
    return " ".join(words).replace("\x00", "")
