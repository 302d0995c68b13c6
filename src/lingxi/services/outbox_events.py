"""Write an event that is no batch of items: what must happen because of it is decided when it is dispatched."""

from typing import Any
from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.names import EVENT_PHOTO_UPLOADED, PHOTO_QUEUE


async def photo_event(
    connection: Connection, type_: str, workspace_id: UUID, payload: dict[str, Any], *, priority: int = 0
) -> None:
    """`photo.uploaded`, `photo.published`, `photo.updated` or `photo.removed`; new uploads go first (priority 0)."""
    queue = PHOTO_QUEUE if type_ == EVENT_PHOTO_UPLOADED else None
    await connection.execute(
        sql("outbox/insert"), type_, workspace_id, priority, orjson.dumps(payload).decode(), queue
    )
