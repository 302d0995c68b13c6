"""The fence of a processor's own transaction: it may commit only while its attempt still owns the item."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


class Superseded(Exception):
    """Somebody else has the item by now; what this attempt wanted to write must be rolled back."""


async def guard_attempt(connection: Connection, task_id: UUID, position: int, fence: int) -> None:
    """Lock the item's row in the open transaction (last: the lock order is album, photo, task, item), or raise Superseded."""
    if not await connection.fetchval(sql("items/guard"), task_id, position, fence):
        raise Superseded(f"attempt {fence} does not own position {position} of task {task_id}")
