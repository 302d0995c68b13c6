"""The shapes of the worker interface on the wire."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lingxi.api.schemas import Wire, whole

MAX_CLAIMS = 100
DEFAULT_LEASE_SECONDS = 30.0
ATTEMPT_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9]{1,18}$"

# JSON knows one kind of number: 60 is as good as 60.0.
_number = BeforeValidator(lambda n: float(n) if isinstance(n, int) and not isinstance(n, bool) else n)
LeaseSeconds = Annotated[
    float, Field(ge=1, le=300, description="How long the attempt is owned without renewal."), _number
]
ItemId = Annotated[str, Field(json_schema_extra={"format": "uuid"}, max_length=36)]


class NewClaims(Wire):
    type: str = Field(
        max_length=100, description="The logical queue that the jobs came from, e.g. `media:verify`."
    )
    worker: str = Field(
        min_length=1,
        max_length=100,
        pattern="^[!-~]+$",
        description="Who asks: shown with the attempt, kept in its history.",
    )
    items: list[ItemId] = Field(
        max_length=MAX_CLAIMS, description="`itemId` of each job; none: only a heartbeat of the queue."
    )
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS


class ClaimedAttempt(Wire):
    attempt_id: str = Field(pattern=ATTEMPT_PATTERN, description="Names the attempt; it is its fence too.")
    item_id: str = Field(json_schema_extra={"format": "uuid"})
    task_id: str = Field(json_schema_extra={"format": "uuid"})
    workspace_id: str = Field(json_schema_extra={"format": "uuid"})
    index: int
    ref: str | None
    attempt: int = Field(description="Counts from 1 in each round.")
    round: int
    input: dict[str, Any]
    idempotency_key: str = Field(description="The same for every attempt of the item.")
    lease_seconds: float
    deadline_at: str = Field(
        json_schema_extra={"format": "date-time"}, description="No lease is renewed past it."
    )


class NotClaimed(Wire):
    item_id: str = Field(json_schema_extra={"format": "uuid"})
    reason: Literal["unknown", "done", "later"] = Field(
        description="done: acknowledge the job, nothing is to be done · later: it waits for room; delay the job by a second · "
        "unknown: no item of this type; fail the job."
    )


class Claims(Wire):
    claimed: list[ClaimedAttempt]
    not_claimed: list[NotClaimed]


class NewProgress(Wire):
    done: Annotated[int, Field(ge=0, le=2**53), whole]
    total: Annotated[int, Field(ge=0, le=2**53), whole] | None = None
    note: str | None = Field(default=None, max_length=200)


class NewLease(Wire):
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS
    progress: NewProgress | None = Field(default=None, description="For those who watch the task.")


class Lease(Wire):
    lease_seconds: float


class NewItemError(Wire):
    code: str = Field(pattern="^[a-z][a-z0-9_]{0,63}$", description="Stable, snake_case.")
    message: str = Field(max_length=1000, description="One plain sentence.")
    retryable: bool
    retry_after: Annotated[float, _number] | None = Field(
        default=None, ge=0, le=86400, description="Seconds; else exponential backoff."
    )


class NewEnding(Wire):
    outcome: Literal["succeeded", "failed", "released"] = Field(
        description="released: given back, uncharged, e.g. because the worker stops."
    )
    result: dict[str, Any] | None = Field(default=None, description="Of what succeeded; at most 64 kB.")
    error: NewItemError | None = Field(default=None, description="Of what failed.")


class Ending(Wire):
    verdict: Literal["accepted", "already"] = Field(description="already: this very ending was told before.")
    state: Literal["queued", "running", "retrying", "succeeded", "failed", "cancelled"] = Field(
        description="The item's state now."
    )


class NewCap(Wire):
    max_running: Annotated[int | None, Field(ge=1, le=1_000_000), whole] = Field(
        description="Items of the workspace at once, over all queues; null: no cap."
    )


class Cap(Wire):
    workspace_id: str = Field(json_schema_extra={"format": "uuid"})
    max_running: int | None


class CapOfWorkspace(Cap):
    running: int = Field(description="Its items that run now.")


class CapList(Wire):
    caps: list[CapOfWorkspace]
