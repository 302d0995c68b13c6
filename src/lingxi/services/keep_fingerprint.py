"""Keep a photo's fingerprint, and link the photo to those of its album that look like it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.duplicates import (
    BURST_BITS,
    BURST_SECONDS,
    MAX_LINKS,
    NEAR_BITS,
    NEAR_DIFFERENCE_BITS,
    near_values,
)
from lingxi.domain.photos import Visibility


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a photo looks like. Hashes are 8 bytes, both None where nothing can be made out; sizes are of the upright original."""

    generation: int
    perceptual_hash: bytes | None
    difference_hash: bytes | None
    thumb_hash: bytes
    sharpness: float
    width: int
    height: int
    camera: str | None
    captured_local: datetime | None


class Link(NamedTuple):
    """Another photo of the album; `distance` is in bits of the perceptual hashes."""

    photo_id: UUID
    distance: int
    is_near: bool
    is_burst: bool


async def find_fingerprint(connection: Connection, photo_id: UUID) -> Fingerprint | None:
    """What is kept of the photo."""
    row = await connection.fetchrow(sql("photo_fingerprints/get"), photo_id)
    if row is None:
        return None
    return Fingerprint(
        row["generation"],
        _bytes(row["perceptual_hash"]),
        _bytes(row["difference_hash"]),
        row["thumb_hash"],
        row["sharpness"],
        row["width"],
        row["height"],
        row["camera"],
        row["captured_local"],
    )


async def find_links(connection: Connection, photo_id: UUID) -> list[Link]:
    """The photos that look like it and are still there, the nearest first."""
    return [_link(row) for row in await connection.fetch(sql("photo_pairs/of_photo"), photo_id)]


async def keep_fingerprint(
    connection: Connection, album_id: UUID, photo_id: UUID, taken: Fingerprint
) -> list[Link] | None:
    """Write it and link the photo anew; answers the links. None, and nothing is written, when the photo was deleted or recalled.

    The album's lock lets two photos of one album find each other whichever comes first.
    """
    album = await connection.fetchrow(sql("albums/lock"), album_id)
    photo = await connection.fetchrow(sql("photos/lock"), photo_id)
    if album is None or photo is None or album["deleted"] or photo["deleted_at"] is not None:
        return None
    if photo["visibility"] == Visibility.RECALLED:
        return None
    perceptual, difference = _number(taken.perceptual_hash), _number(taken.difference_hash)
    await connection.execute(
        sql("photo_fingerprints/upsert"),
        photo_id,
        album_id,
        taken.generation,
        perceptual,
        difference,
        taken.thumb_hash,
        taken.sharpness,
        taken.width,
        taken.height,
        taken.camera,
        taken.captured_local,
    )
    await connection.execute(sql("photo_pairs/unlink"), photo_id)
    near: Sequence[Record] = ()
    burst: Sequence[Record] = ()
    if taken.perceptual_hash is not None:
        near = await connection.fetch(
            sql("photo_fingerprints/near"),
            album_id,
            photo_id,
            perceptual,
            difference,
            *_probes(taken.perceptual_hash),
            NEAR_BITS,
            NEAR_DIFFERENCE_BITS,
            MAX_LINKS,
        )
        if taken.camera is not None and taken.captured_local is not None:
            burst = await connection.fetch(
                sql("photo_fingerprints/burst"),
                album_id,
                photo_id,
                perceptual,
                taken.camera,
                taken.captured_local,
                BURST_SECONDS,
                BURST_BITS,
                MAX_LINKS,
            )
    await _link_all(connection, album_id, photo_id, near, burst)
    return await find_links(connection, photo_id)


async def _link_all(
    connection: Connection,
    album_id: UUID,
    photo_id: UUID,
    near: Sequence[Record],
    burst: Sequence[Record],
) -> None:
    distances = {row["photo_id"]: row["distance"] for row in (*near, *burst)}
    if not distances:
        return
    near_ids, burst_ids = ({row["photo_id"] for row in rows} for rows in (near, burst))
    others = list(distances)
    await connection.execute(
        sql("photo_pairs/link"),
        photo_id,
        album_id,
        others,
        [distances[other] for other in others],
        [other in near_ids for other in others],
        [other in burst_ids for other in others],
    )


def _probes(perceptual_hash: bytes) -> list[list[int]]:
    """For each band the values to look for."""
    bands = (int.from_bytes(perceptual_hash[at : at + 2], "big") for at in range(0, 8, 2))
    return [near_values(band) for band in bands]


def _link(row: Record) -> Link:
    return Link(row["photo_id"], row["distance"], row["is_near"], row["is_burst"])


def _number(hash_: bytes | None) -> int | None:
    """As PostgreSQL keeps 64 bits."""
    return None if hash_ is None else int.from_bytes(hash_, "big", signed=True)


def _bytes(number: int | None) -> bytes | None:
    return None if number is None else number.to_bytes(8, "big", signed=True)
