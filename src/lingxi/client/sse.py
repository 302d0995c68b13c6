"""Reading `text/event-stream` (WHATWG HTML, "Server-sent events"), as bytes come in and however they are cut.

Line ends are CRLF, LF or CR, also when a chunk ends between CR and LF. Comments are dropped. `id` keeps its
last value for all later events, as browsers do, and one with a NUL is ignored; `retry` counts only digits.
"""

from __future__ import annotations

from dataclasses import dataclass

from lingxi.client.errors import StreamBroken

MAX_EVENT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One dispatched event. `id` is set only if this very event carried one; `last_id` is what to resume from."""

    event: str
    data: str
    id: str | None
    last_id: str | None


class EventParser:
    """Feed it chunks, get events. `retry_ms` and `last_id` hold what the stream has said so far."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.retry_ms: int | None = None
        self.last_id: str | None = None
        self._max_event_bytes = max_event_bytes
        self._pending = b""
        self._at_start = True
        self._skip_line_feed = False
        self._event = ""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Events completed by this chunk. Raises StreamBroken if one event outgrows `max_event_bytes`."""
        events = []
        for line in self._lines(chunk):
            if line:
                self._take_field(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        if self._data_bytes + len(self._pending) > self._max_event_bytes:
            raise StreamBroken(f"The event stream sent a frame of more than {self._max_event_bytes} bytes")
        return events

    def _lines(self, chunk: bytes) -> list[bytes]:
        if self._skip_line_feed and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_line_feed = False
        if not chunk:
            return []
        # A CR ends its line at once; the LF that may follow in the next chunk belongs to it.
        self._skip_line_feed = chunk.endswith(b"\r")
        whole = (self._pending + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._pending = whole.split(b"\n")
        if self._at_start and (lines or len(self._pending) >= 3):
            self._at_start = False
            if lines:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            else:
                self._pending = self._pending.removeprefix(b"\xef\xbb\xbf")
        return lines

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._data_bytes += len(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = self.last_id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit():
                self.retry_ms = int(value)

    def _dispatch(self) -> ServerSentEvent | None:
        event, data, own_id = self._event, b"\n".join(self._data), self._id
        had_data = bool(self._data)
        self._event, self._data, self._data_bytes, self._id = "", [], 0, None
        if not had_data:
            return None
        return ServerSentEvent(event or "message", data.decode("utf-8", "replace"), own_id, self.last_id)
