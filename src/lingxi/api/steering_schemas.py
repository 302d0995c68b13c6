"""The shapes of steering by hand on the wire: dead letters, queues, workers, quotas."""

from typing import Annotated, Any, Literal

from pydantic import Field

from lingxi.api.schemas import PriorityName, Time, Uuid, Wire, whole

Reason = Annotated[str, Field(max_length=200)]


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────
class DeadLetter(Wire):
    id: int
    type: str = Field(description="`items.queued`, `photo.uploaded`, `task.ended`, …")
    queue: str | None
    workspace_id: str | None = Uuid
    task_id: str | None = Uuid
    round: int | None
    items: int = Field(description="Items that it sends; 0 when it is no batch of items.")
    payload: dict[str, Any]
    attempts: int
    error: str | None = Field(description="What went wrong at the last try.")
    created_at: str = Time


class DeadLetterPage(Wire):
    dead_letters: list[DeadLetter]
    next_cursor: str | None


class Redrive(Wire):
    payload: dict[str, Any] | None = Field(
        default=None, description="Sent instead of what it has; null or left out: as it is."
    )


class Handled(Wire):
    id: int
    outcome: Literal["redriven", "discarded"]


# ── queues ───────────────────────────────────────────────────────────────────────────────────────────────
class Queue(Wire):
    queue: str
    state: Literal["open", "paused", "draining"] = Field(
        description="paused: nothing of it is sent, taken or claimed · draining: nothing is sent, what was sent is finished; "
        "then it is paused."
    )
    reason: str | None
    since: str | None = Time


class QueueList(Wire):
    queues: list[Queue]


class NewHold(Wire):
    reason: Reason | None = Field(default=None, description="For people: shown in `why` and in health.")


# ── worker processes ─────────────────────────────────────────────────────────────────────────────────────
class Worker(Wire):
    boot: str = Field(description="Tells this start of the process from every other.")
    name: str = Field(description="`host:pid:boot`, as it stands on attempts.")
    host: str
    pid: int
    version: str
    queues: list[str]
    running: int = Field(description="Items and photos that it works on.")
    state: Literal["working", "quiet", "stopping", "lost"] = Field(description="As it told last.")
    wanted: Literal["work", "quiet", "stop"]
    started_at: str = Time
    seen_at: str = Time
    age_seconds: float = Field(description="Since it last told of itself.")


class WorkerList(Wire):
    workers: list[Worker]


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────
class NewPriority(Wire):
    priority: PriorityName


# ── quotas ───────────────────────────────────────────────────────────────────────────────────────────────
MostRequests = Annotated[int, Field(ge=0, le=10_000_000), whole]
MostItems = Annotated[int, Field(ge=0, le=1_000_000_000), whole]
MostBytes = Annotated[int, Field(ge=0, le=2**60), whole]


class NewQuota(Wire):
    requests_per_minute: MostRequests | None
    open_items: MostItems | None = Field(description="Items that have not ended.")
    stored_bytes: MostBytes | None = Field(
        description="Of objects, photos as they were uploaded, and uploads under way."
    )


class Quota(NewQuota):
    workspace_id: str = Uuid


class RateLimit(Wire):
    limit: int | None
    own: bool = Field(description="Set for this workspace; else it is the deployment's.")


class CountedLimit(RateLimit):
    used: int


class WorkspaceLimits(Wire):
    requests_per_minute: RateLimit
    open_items: CountedLimit
    stored_bytes: CountedLimit


# ── retention ────────────────────────────────────────────────────────────────────────────────────────────
class Kept(Wire):
    kind: Literal["tasks", "items", "events", "webhooks", "audit", "objects", "keys"] = Field(
        description="items go with their tasks; keys: of idempotency."
    )
    kept_seconds: float | None = Field(description="Null: for ever.")
    rows: int = Field(description="That are older now.")


class RetentionList(Wire):
    kept: list[Kept]


class Pruned(Wire):
    removed: dict[str, int] = Field(description="Rows, by kind.")
    left: dict[str, int] = Field(
        description="Rows that are older still: ask again, or leave them to the workers."
    )
