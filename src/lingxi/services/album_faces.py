"""The picture by which an album is known in a list."""

from collections.abc import Sequence
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.photos import variant_path


async def album_faces(connection: Connection, album_ids: Sequence[UUID]) -> dict[UUID, str]:
    """By album: the address of its first published photo's thumb. Albums without one are missing."""
    rows = await connection.fetch(sql("photos/faces"), album_ids)
    return {row["album_id"]: variant_path(row["album_id"], row["photo_id"], row["file_name"]) for row in rows}
