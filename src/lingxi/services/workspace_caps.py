"""Caps: how many items of a workspace may run at once, over all queues and workers. Rows, so that a wiped Redis forgets none."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


@dataclass(frozen=True, slots=True)
class Cap:
    """A workspace's cap, and how many of its items run now."""

    workspace_id: UUID
    name: str
    max_running: int
    changed_at: datetime
    running: int


async def set_cap(connection: Connection, workspace_id: UUID, max_running: int | None) -> None:
    """At most so many items at once from the next claim on; None: as many as there are slots. What runs goes on."""
    if max_running is None:
        await connection.execute(sql("caps/remove"), workspace_id)
    else:
        await connection.fetchrow(sql("caps/set"), workspace_id, max_running)


async def list_caps(connection: Connection) -> list[Cap]:
    """All caps, by the workspaces' names."""
    return [Cap(**dict(row)) for row in await connection.fetch(sql("caps/list"))]


async def satisfied_workspaces(connection: Connection) -> list[UUID]:
    """Capped workspaces that have enough on their way for now."""
    return [row["workspace_id"] for row in await connection.fetch(sql("caps/satisfied"))]
