"""Why an item, a task or a photo waits or failed: read from PostgreSQL, judged together with what Redis says at this moment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.rows import attempts_of, item_of
from lingxi.db.session import Connection, Record
from lingxi.domain.errors import ITEM_CODES
from lingxi.domain.wire import Attempt, Item, ItemProblem
from lingxi.names import DEAD_LETTERED, GROUPS, HEARTBEAT_TTL_SECONDS, PHOTO_QUEUE

Reason = Literal[
    "deadLetter", "paused", "redisAway", "noDispatcher", "noWorker", "backoff", "cap", "notSent", "behind", "next",
    "running", "succeeded", "failed", "cancelled",
]  # fmt: skip
STALE_SECONDS = 2 * HEARTBEAT_TTL_SECONDS


@dataclass(frozen=True, slots=True)
class Live:
    """What Redis says now; `redis_up` False: it says nothing, and the rest means nothing."""

    redis_up: bool
    heartbeat_age_seconds: float | None
    dispatcher_held: bool


@dataclass(frozen=True, slots=True)
class Why:
    """The reason as a word and as a sentence. `can_retry`: of what failed, can running it again help? None: it has not failed."""

    state: str
    reason: Reason
    sentence: str
    queue: str
    can_retry: bool | None = None
    error: ItemProblem | None = None
    ahead: int | None = None
    ahead_own: int | None = None
    item: Item | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Items of a task in one state, of one code. `first_index` is the first of them, from 0."""

    state: str
    code: str | None
    message: str | None
    can_retry: bool | None
    items: int
    first_index: int


@dataclass(frozen=True, slots=True)
class TaskWhy:
    """The causes, the most frequent first."""

    status: str
    queue: str
    causes: Sequence[Cause]


async def why_item(connection: Connection, workspace_id: UUID, task_id: UUID, position: int) -> Record | None:
    """The row that `judge_item` needs; None when the workspace has no such item."""
    return await connection.fetchrow(sql("why/item"), workspace_id, task_id, position)


async def with_attempts(connection: Connection, row: Record) -> Item:
    """The item with the history of its attempts."""
    rows = await connection.fetch(sql("items/page"), row["task_id"], row["position"] - 1, 1, None)
    ended = await connection.fetch(sql("items/attempts"), row["task_id"], [row["position"]])
    return item_of(rows[0], attempts_of(rows, ended)[row["position"]])


async def why_task(connection: Connection, workspace_id: UUID, task_id: UUID) -> TaskWhy | None:
    """None when the workspace has no such task."""
    rows = await connection.fetch(sql("why/task"), workspace_id, task_id)
    if not rows:
        return None
    causes = [
        Cause(
            row["state"],
            row["error_code"],
            row["error_message"],
            row["retryable"] if row["state"] == "failed" else None,
            row["items"],
            row["first_position"] - 1,
        )
        for row in rows
    ]
    return TaskWhy(rows[0]["status"], rows[0]["type"], causes)


async def why_photo(connection: Connection, workspace_id: UUID, photo_id: UUID) -> Record | None:
    """The row that `judge_photo` needs; None when the workspace has no such photo."""
    return await connection.fetchrow(sql("why/photo"), workspace_id, photo_id)


async def attempts_of_photo(connection: Connection, photo_id: UUID) -> tuple[list[Attempt], list[list[str]]]:
    """Of its first publication, oldest first; and the log lines that each left."""
    rows = await connection.fetch(sql("photo_jobs/attempts"), photo_id)
    attempts = [
        Attempt(
            row["number"],
            row["round"],
            row["worker"],
            row["started_at"],
            row["finished_at"],
            row["outcome"],
            _problem(row["error_code"]) if row["error_code"] else None,
        )
        for row in rows
    ]
    return attempts, [orjson.loads(row["log_lines"]) if row["log_lines"] else [] for row in rows]


def _problem(code: str) -> ItemProblem:
    """Of a photo only the code is kept: its sentence, and whether a retry can help, are what the code says."""
    known = ITEM_CODES.get(code)
    return ItemProblem(code, known.sentence if known else code, bool(known and known.retryable))


def judge_item(row: Any, live: Live, item: Item | None = None) -> Why:
    """From the nearest cause outwards: what is over, what runs, what keeps it from being sent, then from being taken."""
    queue, state = row["type"], row["state"]
    if state == "failed":
        return _failed(row, item)
    if state in ("succeeded", "cancelled"):
        said = "It succeeded." if state == "succeeded" else "It was cancelled before it started."
        return Why(state, state, said, queue, item=item)
    if state == "running":
        sentence = f"Attempt {row['attempt']} of {row['max_attempts']} runs on worker {row['worker']}."
        return Why(state, "running", sentence, queue, item=item)
    reason, sentence = _waits(row, live)
    behind = reason in ("behind", "noWorker", "cap")
    ahead, own = (row["ahead"], row["ahead_own"]) if behind else (None, None)
    last = item.attempts[-1].error if item is not None and item.attempts else None
    return Why(state, reason, sentence, queue, error=last, ahead=ahead, ahead_own=own, item=item)


def _failed(row: Any, item: Item | None) -> Why:
    error = ItemProblem(
        row["error_code"], row["error_message"] or row["error_code"], bool(row["error_retryable"])
    )
    retry = "Running it again can help." if error.retryable else "Running it again as it is cannot help."
    attempt = f"attempt {row['attempt']} of {row['max_attempts']}"
    sentence = f"It failed in {attempt} with {error.code}: {_ended(error.message)} {retry}"
    return Why("failed", "failed", sentence, row["type"], error.retryable, error, item=item)


def _ended(message: str) -> str:
    """With a full stop, so that another sentence can follow."""
    return message if message.endswith((".", "!", "?")) else f"{message}."


def _waits(row: Any, live: Live) -> tuple[Reason, str]:
    """Why something waits that could run."""
    due = row["due_in_seconds"]
    if row["state"] == "retrying" and due is not None and due > 0:
        return "backoff", f"An attempt failed; the next one (of {row['max_attempts']}) is due in {due:.0f} s."
    if row["published_at"] is None and row["last_error"] == DEAD_LETTERED:
        return "deadLetter", f"Its event could not be sent and was given up on: {row['error_detail']}"
    if row["hold_state"] is not None:
        return "paused", _held(row)
    if not live.redis_up:
        return "redisAway", "Redis is away: nothing begins until it is back; nothing is lost."
    if row["max_running"] is not None and row["running"] >= row["max_running"]:
        cap = row["max_running"]
        return "cap", f"{row['running']} items of the workspace run, and its cap lets {cap} run at once."
    if row["published_at"] is None and not live.dispatcher_held:
        return (
            "noDispatcher",
            "No dispatcher is at work, so it is not sent to a worker: start an API process.",
        )
    return _behind_workers(
        row["type"], live, row["ahead"], row["ahead_own"], sent=row["published_at"] is not None
    )


def _held(row: Any) -> str:
    """An operator holds the queue."""
    since = row["held_at"].strftime("%Y-%m-%d %H:%M UTC")
    reason = f": {row['hold_reason'].rstrip('.')}" if row["hold_reason"] else ""
    paused = row["hold_state"] == "paused"
    said = "An operator paused the queue" if paused else "An operator drains the queue"
    return f"{said} ({since}){reason}. It goes on once the queue is resumed; nothing is lost."


def _behind_workers(queue: str, live: Live, ahead: int, own: int | None, *, sent: bool) -> tuple[Reason, str]:
    age = live.heartbeat_age_seconds
    if age is None or age > STALE_SECONDS:
        group = next((name for name, queues in GROUPS.items() if queue in queues), queue)
        return "noWorker", f"No worker of {queue} is heard: start one with QUEUE={group}."
    if ahead > 0:
        whose = "" if own is None else f", {own} of them of this workspace"
        return "behind", f"About {ahead} others wait in {queue} and came before{whose}."
    if not sent:
        return "notSent", "It is on its way to the workers."
    return "next", "A worker takes it as soon as it has a free slot."


def judge_photo(row: Any, live: Live) -> Why:
    """Of a photo's first publication."""
    state = row["processing_state"]
    if state == "ready":
        return Why(state, "succeeded", f"It is processed, and {row['visibility']}.", PHOTO_QUEUE)
    if state == "processing_failed":
        error = _problem(code := row["error_code"] or "internal_error")
        retry = (
            "Processing it again can help." if error.retryable else "Another copy of it has to be uploaded."
        )
        attempt = f" in attempt {row['attempt']} on worker {row['worker']}" if row["worker"] else ""
        said = f"It could not be processed{attempt}, with {code}: {_ended(error.message)} {retry}"
        return Why(state, "failed", said, PHOTO_QUEUE, error.retryable, error)
    if row["state"] == "active":
        return Why(state, "running", f"Attempt {row['attempt']} runs on worker {row['worker']}.", PHOTO_QUEUE)
    due = row["due_in_seconds"]
    if due is not None and due > 0:
        said = f"An attempt failed with {row['last_error']}; the next one is due in {due:.0f} s."
        return Why(state, "backoff", said, PHOTO_QUEUE)
    if row["hold_state"] is not None:
        return Why(state, "paused", _held(row), PHOTO_QUEUE)
    if not live.redis_up:
        away = "Redis is away: nothing begins until it is back; nothing is lost."
        return Why(state, "redisAway", away, PHOTO_QUEUE)
    if not live.dispatcher_held:
        return Why(state, "noDispatcher", "No dispatcher is at work: start an API process.", PHOTO_QUEUE)
    ahead = row["ahead"]
    reason, said = _behind_workers(PHOTO_QUEUE, live, ahead, None, sent=True)
    return Why(state, reason, said, PHOTO_QUEUE, ahead=ahead)


def sentence_of_task(why: TaskWhy, waiting: Why | None) -> str:
    """The task in a sentence: how many in which state, the failed by code, and what the first that waits waits for."""
    states: Counter[str] = Counter()
    for cause in why.causes:
        states[cause.state] += cause.items
    said = (
        f"{sum(states.values())} items: "
        + ", ".join(f"{n} {state}" for state, n in states.most_common())
        + "."
    )
    if failed := [cause for cause in why.causes if cause.state == "failed"]:
        said += " Failed: " + ", ".join(f"{cause.items} × {cause.code}" for cause in failed) + "."
        if any(cause.can_retry for cause in failed):
            said += " Running some of them again can help."
    return said if waiting is None else f"{said} The first that waits: {waiting.sentence}"
