"""Dead letters: events that were given up on. Each is sent again (redriven), with its payload mended if need be, or discarded."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.errors import Conflict, FieldError, NotFound, SchemaError
from lingxi.domain.ids import parse_uuid
from lingxi.domain.wire import time_to_wire
from lingxi.names import PAYLOAD_VERSION

MAX_PAYLOAD_BYTES = 16_384
_NOT_DEAD = Conflict("It is no dead letter any more: it was sent again, or discarded.")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that was given up on, after `attempts` tries. `error_detail` is of the last try."""

    id: int
    type: str
    queue: str | None
    workspace_id: UUID | None
    task_id: UUID | None
    round: int | None
    item_count: int
    payload: dict[str, Any]
    attempts: int
    error_detail: str | None
    created_at: datetime

    def to_wire(self) -> dict[str, Any]:
        """The `DeadLetter` of the document."""
        return {
            "id": self.id,
            "type": self.type,
            "queue": self.queue,
            "workspaceId": None if self.workspace_id is None else str(self.workspace_id),
            "taskId": None if self.task_id is None else str(self.task_id),
            "round": self.round,
            "items": self.item_count,
            "payload": self.payload,
            "attempts": self.attempts,
            "error": self.error_detail,
            "createdAt": time_to_wire(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class Event:
    """Whose event it is."""

    id: int
    type: str
    workspace_id: UUID | None
    task_id: UUID | None


async def list_dead_letters(
    connection: Connection, workspace_id: UUID | None, *, after: int | None = None, limit: int = 50
) -> list[DeadLetter]:
    """Oldest first; with `workspace_id` None, those of all workspaces."""
    return [
        _letter(row) for row in await connection.fetch(sql("outbox/dead"), workspace_id, after, None, limit)
    ]


async def get_dead_letter(
    connection: Connection, workspace_id: UUID | None, event_id: int
) -> DeadLetter | None:
    """None when there is none with this id in the workspace."""
    row = await connection.fetchrow(sql("outbox/dead"), workspace_id, None, event_id, 1)
    return None if row is None else _letter(row)


async def find_event(connection: Connection, workspace_id: UUID | None, event_id: int) -> Event:
    """Dead or not; NotFound when the workspace (None: no workspace) has none like that."""
    row = await connection.fetchrow(sql("outbox/owner"), event_id, workspace_id)
    if row is None:
        raise NotFound
    return Event(**dict(row))


async def redrive(connection: Connection, event: Event, payload: dict[str, Any] | None = None) -> None:
    """It is due now, with all its tries before it.

    Conflict when it is no dead letter, SchemaError for a payload that cannot be sent.
    """
    mended = None if payload is None else await _checked(connection, event, payload)
    if await connection.fetchval(sql("outbox/redrive"), event.id, mended) is None:
        raise _NOT_DEAD


async def discard(connection: Connection, event: Event) -> None:
    """It is never sent; of a batch of items, those that still wait for it end as `failed`, with `dispatch_failed`.

    Conflict when it is no dead letter.
    """
    if await connection.fetchval(sql("outbox/discard"), event.id, event.workspace_id) != "discarded":
        raise _NOT_DEAD


async def _checked(connection: Connection, event: Event, payload: dict[str, Any]) -> str:
    """The payload as JSON text. What it names must be of the event's workspace: it decides what workers do and viewers see."""
    encoded = orjson.dumps(payload)
    version = payload.get("v")
    if type(version) is not int or not 1 <= version <= PAYLOAD_VERSION:
        raise _refused("payload.v", f"it must be a version that is understood here: 1 to {PAYLOAD_VERSION}")
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise _refused("payload", f"it must have at most {MAX_PAYLOAD_BYTES} bytes")
    named: dict[str, UUID | None] = {}
    for name in ("photoId", "albumId", "taskId"):
        text = payload.get(name)
        named[name] = parse_uuid(text) if isinstance(text, str) else None
        if text is not None and named[name] is None:
            raise _refused(f"payload.{name}", "it must be an id")
    ids = tuple(named.values())
    if not await connection.fetchval(sql("outbox/names_own"), event.workspace_id, *ids):
        raise _refused("payload", "it names a photo, an album or a task that is not there")
    return encoded.decode()


def _refused(field: str, why: str) -> SchemaError:
    return SchemaError(f"{field}: {why}.", [FieldError(field, why)])


def _letter(row: Record) -> DeadLetter:
    values = dict(row)
    return DeadLetter(**{**values, "payload": _readable(values["payload"])})


def _readable(payload: str) -> dict[str, Any]:
    """What cannot be read is why it is dead: it is shown as it lies."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return {"unreadable": payload[:1000]}
    return value if isinstance(value, dict) else {"unreadable": value}
