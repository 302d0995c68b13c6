"""Read tasks and items of one workspace."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.rows import attempts_of, item_of, task_of
from lingxi.db.session import Connection
from lingxi.domain.wire import Item, Task


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What `GET /media-tasks` may ask for; None means any (of types: all but deliveries of webhooks, which nobody submitted).
    `metadata` is JSON texts of which a task's metadata must contain one."""

    statuses: Sequence[str] | None = None
    types: Sequence[str] | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    metadata: Sequence[str] | None = None


async def get_task(connection: Connection, workspace_id: UUID, task_id: UUID) -> Task | None:
    """The task, or None when the workspace has none with this id."""
    row = await connection.fetchrow(sql("tasks/get"), workspace_id, task_id)
    return None if row is None else task_of(row)


async def list_tasks(
    connection: Connection,
    workspace_id: UUID,
    wanted: TaskFilter,
    *,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Task]:
    """Newest first, at most `limit`; `after` is the creation time and id of the last task of the page before."""
    created_at, task_id = after or (None, None)
    place = (workspace_id, created_at, task_id, limit, wanted.statuses)
    others = (wanted.created_from, wanted.created_before, wanted.metadata)
    if wanted.types is None:
        rows = await connection.fetch(sql("tasks/page_own"), *place, *others)
    else:
        rows = await connection.fetch(sql("tasks/page"), *place, wanted.types, *others)
    return [task_of(row) for row in rows]


async def list_items(
    connection: Connection, task_id: UUID, *, states: Sequence[str] | None, after_position: int, limit: int
) -> list[Item]:
    """Items of a task in order of position, at most `limit`, with the history of their attempts."""
    rows = await connection.fetch(sql("items/page"), task_id, after_position, limit, states)
    ended = await connection.fetch(sql("items/attempts"), task_id, [row["position"] for row in rows])
    attempts = attempts_of(rows, ended)
    return [item_of(row, attempts[row["position"]]) for row in rows]
