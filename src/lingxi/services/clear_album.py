"""The photos of a deleted album are deleted in bounded steps; to everybody the album is gone from the first moment."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection

PHOTOS_A_STEP = 500
REMOVED_AFTER_SECONDS = 3_600.0  # well inside the day that is promised


async def albums_to_clear(connection: Connection, *, limit: int) -> list[UUID]:
    """Deleted albums that may still have photos."""
    return [row["id"] for row in await connection.fetch(sql("albums/to_clear"), limit)]


async def clear_album(connection: Connection, album_id: UUID, *, limit: int = PHOTOS_A_STEP) -> int:
    """One step: delete at most `limit` photos of a deleted album; answers how many. Fewer than `limit`: it is cleared."""
    await connection.fetchrow(sql("albums/lock"), album_id)
    count: int = await connection.fetchval(sql("albums/clear_step"), album_id, limit, REMOVED_AFTER_SECONDS)
    if count < limit:
        await connection.execute(sql("albums/cleared"), album_id)
    return count
