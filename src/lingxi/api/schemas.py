"""The shapes on the wire, for the OpenAPI document: what `domain/wire.py` writes, and what requests hold.

Answers are written by hand-made functions (fast); `tests/integration/api` holds them against these models.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lingxi.api.submission import MAX_ITEMS, MAX_REF_CHARACTERS
from lingxi.names import QUEUES

ItemStateName = Literal["queued", "running", "retrying", "succeeded", "failed", "cancelled"]
TaskStatusName = Literal[
    "queued", "running", "cancelling", "succeeded", "partially_failed", "failed", "cancelled"
]
PriorityName = Literal["live", "normal", "bulk"]
RoleName = Literal["viewer", "editor", "admin"]

Uuid = Field(json_schema_extra={"format": "uuid"})
Time = Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC, microseconds")


# JSON knows one kind of number: 60.0 is as whole as 60.
whole = BeforeValidator(lambda n: int(n) if isinstance(n, float) and n.is_integer() else n)
Lifetime = Annotated[int, Field(ge=60, le=10 * 366 * 86400), whole]


class Wire(BaseModel):
    """camelCase on the wire; nothing that is not named here."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", populate_by_name=True, strict=True)


class FieldProblem(Wire):
    field: str = Field(description="Where: e.g. `items[16].input.sha256`.")
    message: str


class Problem(Wire):
    """RFC 9457. `code` is stable; `detail` is one plain sentence."""

    type: str
    title: str
    status: int
    code: int
    detail: str
    errors: list[FieldProblem] = Field(default=[], description="Only where single fields are wrong.")


class Counts(Wire):
    total: int
    queued: int
    running: int
    retrying: int
    succeeded: int
    failed: int
    cancelled: int


class Task(Wire):
    """A submitted batch. `cursor` is its sequence number, where an event stream may resume."""

    id: str = Uuid
    type: str
    status: TaskStatusName
    round: int = Field(description="1, and one more for each retry of failed items.")
    priority: PriorityName
    cancel_requested: bool
    counts: Counts
    metadata: dict[str, Any] | None
    created_at: str = Time
    started_at: str | None = Time
    finished_at: str | None = Time
    cursor: int


class Eta(Wire):
    at: str = Time
    seconds: float = Field(description="From now.")
    low_seconds: float = Field(description="The end lies between these two four times of five.")
    high_seconds: float
    items_per_second: float = Field(
        description="As measured in the last minutes: of the task, else of its queue."
    )


class TaskShown(Task):
    eta: Eta | None = Field(
        default=None,
        description="Only if asked for by `eta=true`. Null: it has ended, or nothing was measured yet.",
    )


class ItemProblem(Wire):
    code: str
    message: str
    retryable: bool = Field(description="Can another try help?")


class Attempt(Wire):
    number: int
    round: int
    worker: str | None
    started_at: str = Time
    finished_at: str | None = Time
    outcome: Literal["running", "succeeded", "failed", "retrying", "released", "lost"]
    error: ItemProblem | None


class Item(Wire):
    id: str = Uuid
    index: int = Field(description="Its place in the submission, from 0.")
    ref: str | None
    state: ItemStateName
    attempt: int = Field(description="Of this round; 0 before the first.")
    input: dict[str, Any]
    result: Any
    error: ItemProblem | None
    queued_at: str = Time
    started_at: str | None = Time
    finished_at: str | None = Time
    attempts: list[Attempt]


class TaskPage(Wire):
    tasks: list[Task]
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")


class ItemPage(Wire):
    items: list[Item]
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")


class NewItem(Wire):
    ref: str | None = Field(
        default=None, max_length=MAX_REF_CHARACTERS, description="Yours; unique in the task."
    )
    input: dict[str, Any] = Field(
        description="What the processor of the type expects; at most 16 kB of JSON."
    )


class NewTask(Wire):
    type: Literal[QUEUES] = Field(  # type: ignore[valid-type]
        description="A queue that is deployed here and whose processor is there; else 422 says which are."
    )
    items: list[NewItem] = Field(min_length=1, max_length=MAX_ITEMS)
    metadata: dict[str, Any] | None = Field(default=None, description="Yours; at most 16 kB of JSON.")
    priority: PriorityName = "normal"


class StoredObject(Wire):
    name: str
    size: int = Field(description="Bytes.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    content_type: str = Field(description="By content, not by name.")
    created_at: str = Time


class StreamToken(Wire):
    token: str = Field(description="For `?token=` of the task's event stream, where no header can be set.")
    expires_at: str = Time


class Session(Wire):
    role: Literal["viewer", "editor", "admin", "operator", "worker"]
    workspace_id: str | None = Uuid
    expires_at: str = Time


class SignInLink(Wire):
    url: str
    expires_at: str = Time


class Workspace(Wire):
    id: str = Uuid
    name: str
    created_at: str = Time
    disabled_at: str | None = Time


class WorkspaceList(Wire):
    workspaces: list[Workspace]


class NewWorkspace(Wire):
    name: str = Field(min_length=1, max_length=100)


class Token(Wire):
    id: str = Uuid
    role: RoleName
    name: str
    created_at: str = Time
    expires_at: str | None = Time
    revoked_at: str | None = Time


class CreatedToken(Token):
    token: str = Field(description="The secret. It is shown this once.")


class CreatedWorkspace(Workspace):
    admin_token: CreatedToken


class TokenList(Wire):
    tokens: list[Token]


class NewToken(Wire):
    name: str = Field(min_length=1, max_length=100)
    role: RoleName
    lifetime_seconds: Lifetime | None = Field(default=None, description="Null: until revoked.")


class Rotation(Wire):
    overlap_seconds: Annotated[int, Field(ge=0, le=30 * 86_400), whole] = Field(
        default=0, description="For how long the old one still holds."
    )


class LiveHealth(Wire):
    status: Literal["ok"]


class ReadyHealth(Wire):
    status: Literal["ready"]
    postgresql: Literal["up"]
    redis: Literal["up", "down"]


class QueueCounts(Wire):
    waiting: int
    active: int
    completed: int = Field(description="Within the last hour.")
    failed: int = Field(description="Within the last hour.")
    delayed: int = Field(description="Waiting for the time of a next attempt.")


class Heartbeat(Wire):
    state: Literal["fresh", "stale", "missing"]
    age_seconds: float | None = Field(description="Null when missing: nothing was heard for 30 s.")


class QueueHold(Wire):
    state: Literal["paused", "draining"] = Field(
        description="paused: nothing of it is sent, taken or claimed · draining: nothing is sent, what was sent is finished."
    )
    reason: str | None
    since: str = Time


class QueueHealth(Wire):
    queue: str
    status: Literal["ok", "degraded"] = Field(description="degraded: work waits, and no worker is heard.")
    counts: QueueCounts
    oldest_waiting_seconds: float = Field(
        description="Of any item that is due, wherever it waits; 0 when none."
    )
    heartbeat: Heartbeat
    hold: QueueHold | None = Field(description="Null: nobody holds it.")


class OutboxHealth(Wire):
    pending: int
    dead_letters: int


class QueuesHealth(Wire):
    status: Literal["ok", "degraded"]
    queues: list[QueueHealth]
    outbox: OutboxHealth
