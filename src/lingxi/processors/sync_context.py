"""What a plain `def run(context, input)` is given. It runs in a child process without servers; what it needs goes over a pipe."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lingxi.domain.errors import Permanent, Transient
from lingxi.processors.context import Attempt, Item, Stopped, StopReason
from lingxi.processors.progress import fit_to_say

_MAX_FIELDS: Final = 30  # of a line of the log: all of it has to fit into one message
_MAX_NAME, _MAX_TEXT = 100, 500  # characters


class Answered:
    """What the worker said to a question: a value, or why not."""

    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said

    def value(self) -> Any:
        """The value; Permanent, Transient or Stopped when there is none."""
        if (code := self._said.get("code")) is None:
            return self._said.get("value")
        if code == "stopped":
            raise Stopped
        kind = Transient if self._said["retryable"] else Permanent
        raise kind(code, self._said["message"], retry_after=self._said.get("retryAfter"))


class ChildLog:
    """Lines of the child, written by the worker with the item's names on them."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell

    def debug(self, event: str, **fields: Any) -> None:
        self._say("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._say("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._say("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._say("error", event, fields)

    def _say(self, level: str, event: str, fields: dict[str, Any]) -> None:
        printable = {
            str(name)[:_MAX_NAME]: _printable(value) for name, value in list(fields.items())[:_MAX_FIELDS]
        }
        self._tell({"log": [level, str(event)[:_MAX_TEXT], printable]})


def _printable(value: object) -> object:
    if value is None or isinstance(value, int | float | bool):
        return value
    return (value if isinstance(value, str) else repr(value))[:_MAX_TEXT]


class SyncContext:
    """One attempt, seen from a sync processor: the same names as `Context`, without a database."""

    def __init__(
        self,
        item: Item,
        attempt: Attempt,
        seconds_left: float,
        tell: Callable[[dict[str, Any]], None],
        ask: Callable[[dict[str, Any]], Answered],
    ) -> None:
        self.item = item
        self.attempt = attempt
        self.deadline = time.monotonic() + seconds_left
        self.stopping = threading.Event()
        self.stop_reason: StopReason | None = None
        self.log = ChildLog(tell)
        self._tell, self._ask = tell, ask
        self._scratch: Path | None = None

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of the item in every round, so that a receiver outside can drop a repeat."""
        return str(self.item.id)

    def seconds_left(self) -> float:
        """Time until the deadline, in seconds; negative once it has passed."""
        return self.deadline - time.monotonic()

    def stop_if_asked(self) -> None:
        """Raise Stopped when `stopping` is set: the attempt is given back, or is too late."""
        if self.stopping.is_set():
            raise Stopped

    def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Tell watchers how far this item is: best effort, coalesced by the worker."""
        self._tell({"progress": fit_to_say(done, total, note)})

    def scratch(self) -> Path:
        """A folder of this attempt's own, removed when it ends and after a crash; bounded by `scratch_bytes`."""
        if self._scratch is None:
            self._scratch = Path(self._ask({"ask": "scratch"}).value())
        return self._scratch

    def fetch_object(self, name: str) -> Path:
        """An object of the item's workspace as a file in `scratch()`. Permanent or Transient as in `Context`."""
        return Path(self._ask({"ask": "fetch_object", "name": name}).value())

    def put_object(self, name: str, path: Path) -> None:
        """Store a file of `scratch()` as an object of the item's workspace. Permanent or Transient as in `Context`."""
        self._ask({"ask": "put_object", "name": name, "path": str(path)}).value()
