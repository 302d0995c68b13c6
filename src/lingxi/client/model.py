"""What the API sends, as typed values. `raw` is the object as it came, with fields this client does not know yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

FINAL_STATUSES = frozenset({"succeeded", "partially_failed", "failed", "cancelled"})
FINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Counts:
    """Items of a task by state. The six states add up to `total` in every state that was committed."""

    total: int = 0
    queued: int = 0
    running: int = 0
    retrying: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Counts:
        return cls(**{name: int(wire.get(name, 0)) for name in cls.__slots__})

    @property
    def final(self) -> int:
        return self.succeeded + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class Task:
    """A submitted batch. Times are RFC 3339 strings as the server wrote them."""

    id: str
    type: str
    status: str
    round: int
    priority: str
    cancel_requested: bool
    counts: Counts
    metadata: Any
    created_at: str
    started_at: str | None
    finished_at: str | None
    cursor: int
    raw: Json

    @classmethod
    def from_wire(cls, wire: Json) -> Task:
        return cls(
            id=wire["id"],
            type=wire["type"],
            status=wire["status"],
            round=int(wire["round"]),
            priority=wire.get("priority", "normal"),
            cancel_requested=bool(wire.get("cancelRequested")),
            counts=Counts.from_wire(wire["counts"]),
            metadata=wire.get("metadata"),
            created_at=wire["createdAt"],
            started_at=wire.get("startedAt"),
            finished_at=wire.get("finishedAt"),
            cursor=int(wire["cursor"]),
            raw=wire,
        )

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why an attempt or an item failed: a stable code, a sentence, and whether a retry can help."""

    code: str
    message: str
    retryable: bool

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any] | None) -> ItemError | None:
        if wire is None:
            return None
        return cls(str(wire["code"]), str(wire.get("message", "")), bool(wire.get("retryable")))


@dataclass(frozen=True, slots=True)
class Item:
    """One item, as `GET …/items` lists it (with `attempts`) or as an `item` frame carries it (without)."""

    id: str
    index: int
    ref: str | None
    state: str
    attempt: int
    result: Any
    error: ItemError | None
    raw: Json

    @classmethod
    def from_wire(cls, wire: Json) -> Item:
        return cls(
            id=wire.get("id") or wire["itemId"],
            index=int(wire["index"]),
            ref=wire.get("ref"),
            state=wire["state"],
            attempt=int(wire.get("attempt", 0)),
            result=wire.get("result"),
            error=ItemError.from_wire(wire.get("error")),
            raw=wire,
        )

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `next_cursor` is opaque and None at the end."""

    rows: list[Json]
    next_cursor: str | None
