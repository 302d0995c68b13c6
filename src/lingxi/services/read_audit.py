"""The audit log, read: a workspace's own page by page, or all of it for whoever sits beside the database."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.wire import time_to_wire

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_EXPORT_ROWS = 1000  # a statement: what an export holds in memory at most


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change that was made. `actor` is a token's id; None for the command line beside the database.

    `actor_name` and `actor_role` are None, too, when the token's row is gone. `target` is a kind and an id: `task:<id>`.
    """

    id: int
    workspace_id: UUID | None
    actor: UUID | None
    actor_name: str | None
    actor_role: str | None
    verb: str
    target: str
    request_id: str | None
    at: datetime

    @classmethod
    def from_record(cls, row: Record) -> "AuditEntry":
        """From a row of the statements in `queries/audit/`."""
        return cls(**{name: row[name] for name in cls.__slots__})

    def to_wire(self) -> dict[str, Any]:
        """The `AuditEntry` of the document."""
        return {
            "id": str(self.id),
            "at": time_to_wire(self.at),
            "workspaceId": None if self.workspace_id is None else str(self.workspace_id),
            "actor": None if self.actor is None else str(self.actor),
            "actorName": self.actor_name,
            "actorRole": self.actor_role,
            "verb": self.verb,
            "target": self.target,
            "requestId": self.request_id,
        }


Place = tuple[datetime, int]
"""When, and which of those at the same moment: what a page goes on after."""


async def list_audit(
    connection: Connection,
    workspace_id: UUID,
    *,
    since: datetime | None,
    until: datetime | None,
    after: Place | None,
    limit: int,
) -> list[AuditEntry]:
    """A page of a workspace's entries, newest first, on from `after`. `since` is included, `until` is not."""
    at, last = after or (None, None)
    rows = await connection.fetch(sql("audit/page"), workspace_id, since, until, at, last, limit)
    return [AuditEntry.from_record(row) for row in rows]


async def export_audit(
    connection: Connection, workspace_id: UUID | None, *, since: datetime | None, until: datetime | None
) -> AsyncIterator[AuditEntry]:
    """Every entry of the time, oldest first, of one workspace or (None) of all. Holds no more than a thousand at once.

    Each thousand is a statement of its own, so that an export of hours holds no snapshot; what is pruned meanwhile is left out.
    """
    place: Place = (since or _BEGINNING, 0)
    while True:
        rows = await connection.fetch(sql("audit/export"), workspace_id, until, *place, _EXPORT_ROWS)
        for row in rows:
            yield AuditEntry.from_record(row)
        if len(rows) < _EXPORT_ROWS:
            return
        place = (rows[-1]["at"], rows[-1]["id"])
