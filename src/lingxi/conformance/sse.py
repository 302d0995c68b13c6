"""Reading an event stream as a browser does (WHATWG HTML, "Server-sent events"), and strictly where the
contract is stricter.
"""

import json
from dataclasses import dataclass, field
from typing import Any


class ProtocolError(Exception):
    """The stream says something that the contract does not allow."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event. `id` is the text of its own `id:` line, None when it had none; `at` the second it arrived
    (loop time).
    """

    event: str
    data: Any
    id: str | None
    at: float = 0.0

    @property
    def number(self) -> int:
        """Its id as a number; ProtocolError when it has none or is no number."""
        if self.id is None or not self.id.isdigit():
            raise ProtocolError(f"a frame {self.event!r} has the id {self.id!r}; a number was expected")
        return int(self.id)


@dataclass(slots=True)
class Parser:
    """Feed it bytes, get frames."""

    retry_milliseconds: int | None = None
    comments: int = 0
    _pending: bytes = b""
    _event: str = ""
    _data: list[str] = field(default_factory=list)
    _id: str | None = None

    def feed(self, chunk: bytes, at: float = 0.0) -> list[Frame]:
        """The frames that this chunk completes."""
        self._pending += chunk
        frames = []
        while (found := _line_end(self._pending)) is not None:
            end, after = found
            line, self._pending = self._pending[:end], self._pending[after:]
            if line:
                self._take(line.decode("utf-8"))
            elif (frame := self._dispatch(at)) is not None:
                frames.append(frame)
        return frames

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "":
                self.comments += 1
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case "retry" if value.isdigit():
                self.retry_milliseconds = int(value)
            case _:
                raise ProtocolError(f"the stream has a line {line[:80]!r}")

    def _dispatch(self, at: float) -> Frame | None:
        event, data, own_id = self._event, self._data, self._id
        self._event, self._data, self._id = "", [], None
        if not data:
            if event or own_id is not None:
                raise ProtocolError(f"a frame {event!r} carries no data: browsers drop it")
            return None
        try:
            return Frame(event or "message", json.loads("\n".join(data)), own_id, at)
        except ValueError as error:
            raise ProtocolError(f"the data of a frame {event!r} is no JSON: {data[0][:80]!r}") from error


def _line_end(text: bytes) -> tuple[int, int] | None:
    """Where the first line ends, and where the next one begins. A CR at the very end may be half of a CRLF: wait."""
    feed, carriage = text.find(b"\n"), text.find(b"\r")
    if carriage < 0 or 0 <= feed < carriage:
        return (feed, feed + 1) if feed >= 0 else None
    if carriage + 1 == len(text):
        return None
    return carriage, carriage + (2 if text[carriage + 1 : carriage + 2] == b"\n" else 1)
