"""Showing a task's progress: a live bar on a terminal, a line when something changed elsewhere, JSON lines with --json."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lingxi.cli.output import Output
from lingxi.client.frames import (
    Closing,
    End,
    Frame,
    ItemChanged,
    ItemProgress,
    Progress,
    Reconnecting,
    Reset,
    Snapshot,
    TaskState,
)
from lingxi.client.model import Counts

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

PLAIN_LINE_SECONDS = 1.0
STATE_STYLES = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "retrying": "magenta",
    "running": "cyan",
    "queued": "dim",
}
EVENT_NAMES: dict[type[Any], str] = {
    Snapshot: "snapshot",
    ItemChanged: "item",
    Progress: "progress",
    ItemProgress: "itemProgress",
    End: "end",
    Reset: "reset",
    Closing: "closing",
    Reconnecting: "reconnecting",
}


def counts_in_words(counts: Counts) -> str:
    """`12 of 60 done, 4 running, 1 failed`: what is zero is left out."""
    names = ("running", "retrying", "failed", "cancelled")
    parts = [f"{number} {name}" for name in names if (number := getattr(counts, name))]
    return ", ".join([f"{counts.final} of {counts.total} done", *parts])


class ProgressView:
    """Shows frames as they come. Use as a context manager, so that the terminal is left as it was found."""

    def __init__(
        self,
        output: Output,
        *,
        on_frame: Callable[[Frame, TaskState], None] | None = None,
        indent: str = "",
        tell_frames: bool = True,
    ) -> None:
        """With `tell_frames`, --json writes a line a frame."""
        self.state = TaskState()
        self._output = output
        self._on_frame = on_frame
        self._indent = indent
        self._tell_frames = tell_frames
        self._live: Live | None = None
        self._last_line = ""
        self._last_line_at = 0.0
        self._note = ""

    def __enter__(self) -> Self:
        if self._output.live:
            from rich.live import Live

            self._live = Live(console=self._output.console, refresh_per_second=12, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, frame: Frame) -> None:
        """Folds a frame into the state and shows what it changed."""
        self.state.apply(frame)
        if self._on_frame is not None:
            self._on_frame(frame, self.state)
        if isinstance(frame, Reconnecting):
            self._note = f"{frame.reason}; connecting again"
        elif not isinstance(frame, Closing):
            self._note = ""
        if self._tell_frames:
            self._output.line(_frame_to_wire(frame))
        if self._live is not None:
            self._live.update(self._bar())
        else:
            self._plain(frame)

    def _plain(self, frame: Frame) -> None:
        """At most one line a second, and always one for a lost connection and one for the end."""
        too_soon = time.monotonic() - self._last_line_at < PLAIN_LINE_SECONDS
        if too_soon and not isinstance(frame, Snapshot | End | Reconnecting):
            return
        text = f"{self.state.status}: {counts_in_words(self.state.counts)}"
        if isinstance(frame, Reconnecting):
            text = self._note
        if text != self._last_line:
            self._last_line, self._last_line_at = text, time.monotonic()
            self._output.say(self._indent + text)

    def _bar(self) -> RenderableType:
        from rich.text import Text

        counts = self.state.counts
        width = max(10, min(50, self._output.console.width - 50))
        bar = Text("  ")
        drawn = 0
        for name in ("succeeded", "failed", "cancelled", "running", "retrying"):
            share = round(width * getattr(counts, name) / counts.total) if counts.total else 0
            share = min(share, width - drawn)
            bar.append(("━" if name != "running" else "╍") * share, style=STATE_STYLES[name])
            drawn += share
        bar.append("─" * (width - drawn), style="dim")
        bar.append(f"  {self.state.status}  {counts_in_words(counts)}")
        if self._note:
            bar.append(f"  {self._note}", style="yellow")
        return bar


def _frame_to_wire(frame: Frame) -> dict[str, Any]:
    """A frame as a line of JSON, near to how it came."""
    name = EVENT_NAMES[type(frame)]
    match frame:
        case Snapshot(task=task, id=event_id) | End(task=task, id=event_id):
            return {"event": name, "id": event_id, "data": task.raw}
        case ItemChanged(item=item, id=event_id):
            return {"event": name, "id": event_id, "data": item.raw}
        case Progress():
            counts = {key: getattr(frame.counts, key) for key in Counts.__slots__}
            return {"event": name, "data": {"status": frame.status, "round": frame.round, "counts": counts}}
        case ItemProgress():
            data = {"itemId": frame.item_id, "done": frame.done, "total": frame.total, "note": frame.note}
            return {"event": name, "data": data}
        case Reconnecting():
            return {"event": name, "data": {"reason": frame.reason}}
        case _:
            return {"event": name, "data": {}}
