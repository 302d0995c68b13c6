"""Albums: create, read, change, delete."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID, uuid4

from lingxi.db.photo_rows import album_of
from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import NotFound
from lingxi.domain.photos import Album
from lingxi.services.clear_album import clear_album
from lingxi.services.outbox_events import photo_event


async def create_album(
    connection: Connection, workspace_id: UUID, name: str, *, originals_shared: bool = False
) -> Album:
    """A new, empty album; its feed begins at 1."""
    row = await connection.fetchrow(sql("albums/create"), uuid4(), workspace_id, name, originals_shared)
    assert row is not None
    return album_of(row)


async def get_album(connection: Connection, workspace_id: UUID, album_id: UUID) -> Album:
    """The album; NotFound when the workspace has none with this id, or it was deleted."""
    row = await connection.fetchrow(sql("albums/get"), workspace_id, album_id)
    if row is None:
        raise NotFound
    return album_of(row)


async def find_album(connection: Connection, album_id: UUID) -> Album | None:
    """The album of any workspace, for who holds a link to it; None when there is none, or it was deleted."""
    row = await connection.fetchrow(sql("albums/find"), album_id)
    return None if row is None else album_of(row)


async def list_albums(
    connection: Connection, workspace_id: UUID, *, after: tuple[datetime, UUID] | None, limit: int
) -> list[Album]:
    """Newest first; `after` is the creation time and id of the last one of the page before."""
    created_at, album_id = after or (None, None)
    rows = await connection.fetch(sql("albums/page"), workspace_id, created_at, album_id, limit)
    return [album_of(row) for row in rows]


async def count_photos(connection: Connection, album_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """By album: photos, published, failed, processing."""
    counts = {album_id: {"photos": 0, "published": 0, "failed": 0, "processing": 0} for album_id in album_ids}
    for row in await connection.fetch(sql("albums/counts"), album_ids):
        counts[row["album_id"]] = {
            name: row[name] for name in ("photos", "published", "failed", "processing")
        }
    return counts


async def change_album(
    connection: Connection,
    workspace_id: UUID,
    album_id: UUID,
    *,
    name: str | None,
    originals_shared: bool | None,
) -> Album:
    """Rename it, or say whether share links may fetch originals; takes a number of the feed."""
    row = await connection.fetchrow(sql("albums/change"), workspace_id, album_id, name, originals_shared)
    if row is None:
        raise NotFound
    return album_of(row)


async def delete_album(connection: Connection, workspace_id: UUID, album_id: UUID) -> Album:
    """Delete it for everybody at once, with its photos (the sweep goes on with a huge one); files are removed within a day."""
    row = await connection.fetchrow(sql("albums/delete"), workspace_id, album_id)
    if row is None:
        raise NotFound
    await clear_album(connection, album_id)
    await photo_event(
        connection, "photo.removed", workspace_id, {"v": 1, "albumId": str(album_id), "photoId": None}
    )
    return album_of(row)
