"""Read photos of an album."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from lingxi.db.photo_rows import photo_of, photos_of, variant_of
from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.photos import Photo


async def get_photo(connection: Connection, album_id: UUID, photo_id: UUID) -> Photo | None:
    """The photo with its variants; None when the album has none with this id, or it was deleted."""
    row = await connection.fetchrow(sql("photos/get"), album_id, photo_id)
    return None if row is None else (await with_variants(connection, [photo_of(row)]))[0]


async def list_photos(
    connection: Connection,
    album_id: UUID,
    *,
    shared_only: bool,
    after: tuple[datetime, int] | None,
    limit: int,
) -> list[Photo]:
    """In the album's order; `after` is the sort time and upload number of the last one of the page before."""
    sort_at, upload_number = after or (None, None)
    rows = await connection.fetch(sql("photos/page"), album_id, sort_at, upload_number, limit, shared_only)
    variants = await connection.fetch(sql("photo_variants/of_photos"), [row["id"] for row in rows])
    return photos_of(rows, variants)


async def with_variants(connection: Connection, photos: Sequence[Photo]) -> list[Photo]:
    """The same photos with their variants."""
    rows = await connection.fetch(sql("photo_variants/of_photos"), [photo.id for photo in photos])
    return [
        replace(photo, variants=tuple(variant_of(row) for row in rows if row["photo_id"] == photo.id))
        for photo in photos
    ]
