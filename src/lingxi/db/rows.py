"""Rows of the database as the domain's values. JSON columns arrive as text and are decoded here, once."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from lingxi.db.session import Record
from lingxi.domain.states import Counts
from lingxi.domain.wire import Attempt, Item, ItemProblem, Task


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def task_of(row: Record) -> Task:
    """A row of media_tasks."""
    return Task(
        id=row["id"],
        workspace_id=row["workspace_id"],
        type=row["type"],
        status=row["status"],
        round=row["round"],
        priority=row["priority"],
        cancel_requested=row["cancel_requested_at"] is not None,
        counts=Counts(
            total=row["total_items"],
            queued=row["queued_items"],
            running=row["running_items"],
            retrying=row["retrying_items"],
            succeeded=row["succeeded_items"],
            failed=row["failed_items"],
            cancelled=row["cancelled_items"],
        ),
        metadata=_json(row["metadata"]),
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        cursor=row["last_seq"],
    )


def _problem(row: Record) -> ItemProblem | None:
    if row["error_code"] is None:
        return None
    return ItemProblem(
        row["error_code"], row["error_message"] or row["error_code"], bool(row["error_retryable"])
    )


def item_of(row: Record, attempts: tuple[Attempt, ...] | None = None) -> Item:
    """A row of media_task_items joined with when its task was created."""
    return Item(
        task_id=row["task_id"],
        position=row["position"],
        ref=row["ref"],
        state=row["state"],
        attempt=row["attempt"],
        input=_json(row["input"]),
        result=_json(row["result"]),
        error=_problem(row),
        queued_at=row["queued_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        last_seq=row["last_seq"],
        attempts=attempts,
    )


def attempts_of(items: Sequence[Record], ended: Iterable[Record]) -> dict[int, tuple[Attempt, ...]]:
    """Every attempt of some items, by position: the ended ones have rows, the current or successful one is in its item."""
    by_position: dict[int, list[Attempt]] = {row["position"]: [] for row in items}
    for row in ended:
        by_position[row["position"]].append(
            Attempt(
                number=row["number"],
                round=row["round"],
                worker=row["worker"],
                started_at=row["started_at"],
                finished_at=row["finished_at"],
                outcome=row["outcome"],
                error=_problem(row),
            )
        )
    for row in items:
        if row["state"] in ("running", "succeeded"):
            outcome = row["state"]
            attempt = Attempt(
                row["attempt"],
                row["round"],
                row["worker"],
                row["started_at"],
                row["finished_at"],
                outcome,
                None,
            )
            by_position[row["position"]].append(attempt)
    return {position: tuple(attempts) for position, attempts in by_position.items()}
