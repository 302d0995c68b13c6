"""The effect of a `demo:drill` item: one row, made once however often the item runs."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


async def record_drill(connection: Connection, task_id: UUID, position: int, fence: int) -> bool:
    """Make the effect in the open transaction; False when an earlier attempt has made it."""
    return bool(await connection.fetchval(sql("drill_effects/record"), task_id, position, fence))
