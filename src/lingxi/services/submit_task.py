"""Accept a batch: the task, its items and the events that will put them in the queue, in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.rows import task_of
from lingxi.db.session import Connection
from lingxi.domain.ids import new_task_id
from lingxi.domain.wire import Task
from lingxi.names import ITEMS_PER_EVENT
from lingxi.services.remember_trace import remember_trace


@dataclass(frozen=True, slots=True)
class NewTask:
    """A validated submission. `refs` and `inputs` (JSON text) are one an item, in order; `metadata` is JSON text."""

    workspace_id: UUID
    type: str
    priority: int
    refs: Sequence[str | None]
    inputs: Sequence[str]
    metadata: str | None = None
    max_attempts: int = 3


async def submit_task(
    connection: Connection, new: NewTask, *, items_per_event: int = ITEMS_PER_EVENT
) -> Task:
    """Write the task; it is `queued`, with number 1."""
    row = await connection.fetchrow(
        sql("tasks/submit"),
        new_task_id(),
        new.workspace_id,
        new.type,
        new.priority,
        new.metadata,
        new.max_attempts,
        new.refs,
        new.inputs,
        items_per_event,
    )
    assert row is not None
    await remember_trace(connection, row["id"])
    return task_of(row)
