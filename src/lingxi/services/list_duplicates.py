"""Groups of photos of an album that look alike."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lingxi.db.photo_rows import photos_of
from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.duplicates import Face, Group, Pair, groups_of
from lingxi.domain.photos import Photo


@dataclass(frozen=True, slots=True)
class Duplicates:
    """All groups of an album in their order, and how many of its photos were looked at."""

    groups: list[Group]
    photos: int
    fingerprinted: int


async def list_duplicates(connection: Connection, album_id: UUID) -> Duplicates:
    """Of photos that are neither deleted nor recalled."""
    counts = await connection.fetchrow(sql("photo_fingerprints/counts"), album_id)
    assert counts is not None
    rows = await connection.fetch(sql("photo_pairs/of_album"), album_id)
    pairs = [Pair(row["first_id"], row["second_id"], row["is_near"], row["is_burst"]) for row in rows]
    members = {one for pair in pairs for one in (pair.first_id, pair.second_id)}
    found = await connection.fetch(sql("photo_fingerprints/of_photos"), list(members))
    faces = {
        row["photo_id"]: Face(
            row["photo_id"],
            row["width"] * row["height"],
            row["sharpness"],
            row["size_bytes"],
            row["upload_number"],
            row["thumb_hash"],
        )
        for row in found
    }
    groups = await asyncio.to_thread(groups_of, pairs, faces)
    return Duplicates(groups, counts["photos"], counts["fingerprinted"])


async def photos_by_id(connection: Connection, album_id: UUID, ids: Sequence[UUID]) -> dict[UUID, Photo]:
    """Those of the album that are still there, with their variants."""
    rows = await connection.fetch(sql("photos/some"), album_id, ids)
    variants = await connection.fetch(sql("photo_variants/of_photos"), ids)
    return {photo.id: photo for photo in photos_of(rows, variants)}
