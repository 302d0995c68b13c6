"""Workspaces: whose tasks, objects and tokens are whose."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace; its name is unique."""

    id: UUID
    name: str
    created_at: datetime


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
