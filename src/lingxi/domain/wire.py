"""A task and an item as they are in memory, and as JSON on the wire (HTTP, stream, client): camelCase, times in RFC 3339 UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from lingxi.domain.ids import item_id
from lingxi.domain.states import Counts
from lingxi.names import PRIORITY_NAMES


@dataclass(frozen=True, slots=True)
class Task:
    """A submitted batch. `cursor` is its sequence number; `metadata` is decoded JSON."""

    id: UUID
    workspace_id: UUID
    type: str
    status: str
    round: int
    priority: int
    cancel_requested: bool
    counts: Counts
    metadata: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cursor: int

    @property
    def final(self) -> bool:
        """Has this round ended?"""
        return self.finished_at is not None


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """Why an attempt or an item failed."""

    code: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of an item; `outcome` is running, succeeded, failed, retrying, released or lost."""

    number: int
    round: int
    worker: str | None
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    error: ItemProblem | None


@dataclass(frozen=True, slots=True)
class Item:
    """One item; `input` and `result` are decoded JSON. `attempts` is None where they were not asked for."""

    task_id: UUID
    position: int
    ref: str | None
    state: str
    attempt: int
    input: Any
    result: Any
    error: ItemProblem | None
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    last_seq: int
    attempts: tuple[Attempt, ...] | None = None


def time_to_wire(value: datetime | None) -> str | None:
    """RFC 3339 in UTC with microseconds, e.g. `2026-12-01T20:00:00.000000Z`."""
    return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def counts_to_wire(counts: Counts) -> dict[str, int]:
    return {
        "total": counts.total,
        "queued": counts.queued,
        "running": counts.running,
        "retrying": counts.retrying,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
    }


def task_to_wire(task: Task) -> dict[str, Any]:
    """The `task` of PRODUCT.md."""
    return {
        "id": str(task.id),
        "type": task.type,
        "status": task.status,
        "round": task.round,
        "priority": PRIORITY_NAMES[task.priority],
        "cancelRequested": task.cancel_requested,
        "counts": counts_to_wire(task.counts),
        "metadata": task.metadata,
        "createdAt": time_to_wire(task.created_at),
        "startedAt": time_to_wire(task.started_at),
        "finishedAt": time_to_wire(task.finished_at),
        "cursor": task.cursor,
    }


def problem_to_wire(problem: ItemProblem | None) -> dict[str, Any] | None:
    if problem is None:
        return None
    return {"code": problem.code, "message": problem.message, "retryable": problem.retryable}


def attempt_to_wire(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "round": attempt.round,
        "worker": attempt.worker,
        "startedAt": time_to_wire(attempt.started_at),
        "finishedAt": time_to_wire(attempt.finished_at),
        "outcome": attempt.outcome,
        "error": problem_to_wire(attempt.error),
    }


def item_to_wire(item: Item) -> dict[str, Any]:
    """The `item` of PRODUCT.md, with its attempts where they were read."""
    wire: dict[str, Any] = {
        "id": str(item_id(item.task_id, item.position)),
        "index": item.position - 1,
        "ref": item.ref,
        "state": item.state,
        "attempt": item.attempt,
        "input": item.input,
        "result": item.result,
        "error": problem_to_wire(item.error),
        "queuedAt": time_to_wire(item.queued_at),
        "startedAt": time_to_wire(item.started_at),
        "finishedAt": time_to_wire(item.finished_at),
    }
    if item.attempts is not None:
        wire["attempts"] = [attempt_to_wire(attempt) for attempt in item.attempts]
    return wire


def item_frame(item: Item) -> dict[str, Any]:
    """The data of an `item` frame: what changed, without the input."""
    return {
        "itemId": str(item_id(item.task_id, item.position)),
        "index": item.position - 1,
        "ref": item.ref,
        "state": item.state,
        "attempt": item.attempt,
        "error": problem_to_wire(item.error),
        "result": item.result,
    }


def progress_frame(task: Task) -> dict[str, Any]:
    """The data of a `progress` frame."""
    return {"status": task.status, "round": task.round, "counts": counts_to_wire(task.counts)}
