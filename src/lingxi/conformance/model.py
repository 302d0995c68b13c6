"""What a client knows after the frames that it was sent, to be compared with what the server says when asked."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

from lingxi.conformance.sse import Frame, ProtocolError

ITEM_FIELDS = ("ref", "state", "attempt", "error", "result")
FINAL_STATUSES = frozenset({"succeeded", "partially_failed", "failed", "cancelled"})
EVENTS = frozenset({"snapshot", "item", "progress", "itemProgress", "end", "reset", "closing"})


@dataclass(slots=True)
class Model:
    """Items by index, the task as last told whole, the counters as last told."""

    task: dict[str, Any] | None = None
    summary: dict[str, Any] = field(default_factory=dict)  # status, round, counts
    items: dict[int, dict[str, Any]] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)
    ended: bool = False
    resets: int = 0

    def apply(self, frame: Frame) -> None:
        """Take one frame."""
        data = frame.data
        match frame.event:
            case "snapshot" | "end":
                self.task = data
                self.summary = {name: data[name] for name in ("status", "round", "counts")}
                self.ended = frame.event == "end"
            case "item":
                self.items[data["index"]] = {name: data.get(name) for name in ITEM_FIELDS}
                self.ids[data["index"]] = data["itemId"]
                self.ended = False
            case "progress":
                self.summary = {name: data[name] for name in ("status", "round", "counts")}
                self.ended = False
            case "reset":
                self.items.clear()
                self.ids.clear()
                self.task, self.ended = None, False
                self.resets += 1
            case event if event not in EVENTS:
                raise ProtocolError(f"there is no frame {event!r} in the contract")

    def copy(self) -> Self:
        """The same knowledge, apart."""
        return deepcopy(self)

    def seed(self, listed: Iterable[Mapping[str, Any]]) -> None:
        """Fill in what `GET …/items` says about items that no frame has told of."""
        for item in listed:
            if item["index"] not in self.items:
                self.items[item["index"]] = {name: item.get(name) for name in ITEM_FIELDS}
                self.ids[item["index"]] = item["id"]

    def differences(self, task: Mapping[str, Any], listed: Iterable[Mapping[str, Any]]) -> list[str]:
        """How this differs from the task and the items that the server lists now; empty when it is the same."""
        found: list[str] = []
        rows = {item["index"]: item for item in listed}
        found += [f"item {index} was never told" for index in sorted(rows.keys() - self.items.keys())]
        found += [
            f"item {index} was told and is not listed" for index in sorted(self.items.keys() - rows.keys())
        ]
        for index in sorted(rows.keys() & self.items.keys()):
            told, listed_item = self.items[index], rows[index]
            if self.ids[index] != listed_item["id"]:
                found.append(f"item {index} was told as {self.ids[index]} and is {listed_item['id']}")
            found += [
                f"item {index}: {name} was told as {told[name]!r} and is {listed_item.get(name)!r}"
                for name in ITEM_FIELDS
                if told[name] != listed_item.get(name)
            ]
        for name in ("status", "round", "counts"):
            if self.summary.get(name) != task[name]:
                found.append(f"the task's {name}: told {self.summary.get(name)!r}, is {task[name]!r}")
        if self.ended and self.task != task:
            found.append(f"the end frame's task is {self.task!r} and GET says {dict(task)!r}")
        return found
