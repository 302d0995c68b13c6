"""The frames of a task's event stream, and the state that they add up to.

The server sends `snapshot`, `item`, `progress`, `itemProgress`, `end`, `reset` and `closing`; the watcher adds
`Reconnecting`, which is told when a connection was lost and another one follows. Unknown events are skipped:
a newer server may send them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lingxi.client.errors import StreamBroken
from lingxi.client.model import Counts, Item, Task
from lingxi.client.sse import ServerSentEvent


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole task, first on a fresh connection and after a `Reset`."""

    task: Task
    id: str | None


@dataclass(frozen=True, slots=True)
class ItemChanged:
    """An item in its latest state. `id` is the task's sequence number of that change."""

    item: Item
    id: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Status and counters, at most five times a second; carries no id."""

    status: str
    round: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class ItemProgress:
    """How far one running item has come. A hint: it may be lost, and nothing is resumed from it."""

    item_id: str
    index: int | None
    done: float
    total: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class End:
    """The final task of this round. The server closes the stream after it."""

    task: Task
    id: str | None


@dataclass(frozen=True, slots=True)
class Reset:
    """The id resumed from could not be honoured: forget what you have; a snapshot and every item follow."""


@dataclass(frozen=True, slots=True)
class Closing:
    """This server is going away; the watcher reconnects by itself."""


@dataclass(frozen=True, slots=True)
class Reconnecting:
    """Not from the server: the connection is gone, the next attempt starts in `delay_seconds`."""

    reason: str
    delay_seconds: float


Frame = Snapshot | ItemChanged | Progress | ItemProgress | End | Reset | Closing | Reconnecting


def parse_frame(event: ServerSentEvent) -> Frame | None:
    """The typed frame, or None for an event this client does not know. Raises StreamBroken on nonsense."""
    try:
        data = json.loads(event.data) if event.data else {}
        if not isinstance(data, dict):
            raise TypeError("not an object")
        return _frame(event.event, data, event.id)
    except (ValueError, KeyError, TypeError) as error:
        raise StreamBroken(f"The event stream sent a {event.event!r} frame that cannot be read") from error


def _frame(event: str, data: dict[str, Any], event_id: str | None) -> Frame | None:
    match event:
        case "snapshot":
            return Snapshot(Task.from_wire(data), event_id)
        case "item":
            return ItemChanged(Item.from_wire(data), event_id)
        case "progress":
            return Progress(data["status"], int(data["round"]), Counts.from_wire(data["counts"]))
        case "itemProgress":
            return _item_progress(data)
        case "end":
            return End(Task.from_wire(data), event_id)
        case "reset":
            return Reset()
        case "closing":
            return Closing()
        case _:
            return None


def _item_progress(data: Mapping[str, Any]) -> ItemProgress:
    index = data.get("index")
    return ItemProgress(
        item_id=data["itemId"],
        index=int(index) if index is not None else None,
        done=float(data["done"]),
        total=float(data["total"]) if data.get("total") is not None else None,
        note=data.get("note"),
    )


@dataclass(slots=True)
class TaskState:
    """What a watcher knows: fold frames in with `apply`. After `End` it equals the rows in the database."""

    task: Task | None = None
    status: str = ""
    round: int = 0
    counts: Counts = field(default_factory=Counts)
    items: dict[int, Item] = field(default_factory=dict)
    ended: bool = False

    def apply(self, frame: Frame) -> None:
        match frame:
            case Snapshot(task=task) | End(task=task):
                self.task, self.status, self.round, self.counts = (
                    task,
                    task.status,
                    task.round,
                    task.counts,
                )
                self.ended = isinstance(frame, End)
            case ItemChanged(item=item):
                self.items[item.index] = item
                self.ended = False
            case Progress():
                self.status, self.round, self.counts = (
                    frame.status,
                    frame.round,
                    frame.counts,
                )
            case Reset():
                self.items.clear()
                self.ended = False
