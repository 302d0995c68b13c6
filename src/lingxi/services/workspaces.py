"""Workspaces: whose tasks, objects and tokens are whose."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection, UniqueViolation


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace; its name is unique. `disabled_at`: since when nobody gets in."""

    id: UUID
    name: str
    created_at: datetime
    disabled_at: datetime | None = None


async def create_workspace(connection: Connection, name: str) -> Workspace | None:
    """A new workspace; None when the name is taken."""
    row = await connection.fetchrow(sql("workspaces/create"), uuid4(), name)
    return None if row is None else Workspace(**dict(row))


async def find_workspace(connection: Connection, name_or_id: str) -> Workspace | None:
    """By name, or by id."""
    row = await connection.fetchrow(sql("workspaces/find"), name_or_id)
    return None if row is None else Workspace(**dict(row))


async def list_workspaces(connection: Connection) -> list[Workspace]:
    """All, oldest first."""
    return [Workspace(**dict(row)) for row in await connection.fetch(sql("workspaces/list"))]


async def rename_workspace(connection: Connection, workspace_id: UUID, name: str) -> Workspace | None:
    """None when another one has the name, or gets it at this moment."""
    try:
        async with connection.transaction():  # a savepoint: the caller's transaction goes on
            row = await connection.fetchrow(sql("workspaces/rename"), workspace_id, name)
    except UniqueViolation:
        return None
    return None if row is None else Workspace(**dict(row))


async def disable_workspace(connection: Connection, workspace_id: UUID, disabled: bool) -> Workspace | None:
    """Disabled, nobody gets in: its tokens, sessions and share links do not hold. What was accepted is finished.

    None when there is no such workspace.
    """
    row = await connection.fetchrow(sql("workspaces/disable"), workspace_id, disabled)
    return None if row is None else Workspace(**dict(row))
