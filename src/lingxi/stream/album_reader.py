"""Reading "what changed after this point" of albums: one statement for any number of them, for both audiences."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from lingxi.db.photo_rows import album_of, photo_of, variant_of
from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.photos import Photo, Variant, photo_to_wire
from lingxi.stream import frames
from lingxi.stream.frames import Piece
from lingxi.stream.page import Ask, Page
from lingxi.stream.subject import AlbumKey, AlbumSubject, Key

_MOST_ROWS = 200  # a photo's frame is about 1 kB
_COUNTS = ("photos", "published", "failed", "processing")


async def read_albums(
    connection: Connection, asks: Sequence[tuple[AlbumKey, Ask]], *, timeout_seconds: float
) -> dict[Key, Page]:
    """The pages of those that exist and have changed (or are asked for always); of one that is deleted, an empty page."""
    most = {key: min(ask.rows, _MOST_ROWS) for key, ask in asks}
    records = await connection.fetch(
        sql("stream/read_albums"),
        [key.album_id for key, _ in asks],
        [ask.after[0] for _, ask in asks],
        [ask.after[1] for _, ask in asks],
        list(most.values()),
        [ask.always for _, ask in asks],
        [ask.whole for _, ask in asks],
        [key.shared for key, _ in asks],
        timeout=timeout_seconds,
    )
    after = {key: ask.after[0] for key, ask in asks}
    pages: dict[Key, Page] = {}
    for record in records:
        key = AlbumKey(record["id"], record["shared"])
        pages[key] = _page(record, key, most[key], after[key])
    return pages


def _page(record: Record, key: AlbumKey, asked: int, after: int) -> Page:
    counted = record["counted"]
    counts = {name: record[f"{name}_counted"] for name in _COUNTS} if counted else {}
    subject = AlbumSubject(album_of(record), key.shared, counts, counted)
    complete = asked == 0 or record["found"] < asked
    pieces = [_piece(photo, shared=key.shared) for photo in _photos(record)] if record["found"] else []
    changed = record["changed_seq"]
    if asked and not subject.gone and changed > after and (complete or changed <= pieces[-1].point[0]):
        own = Piece(subject.snapshot_as(changed), (changed, 0))
        pieces = sorted([*pieces, own], key=lambda piece: piece.point)
    return Page(subject, frames.blocks(pieces), complete)


def _photos(record: Record) -> list[Photo]:
    variants: dict[UUID, list[Variant]] = defaultdict(list)
    for row in record["variants"] or ():
        variants[row["photo_id"]].append(variant_of(row))
    return [
        photo_of(row, sorted(variants[row["id"]], key=lambda variant: variant.kind, reverse=True))
        for row in record["photos"]
    ]


def _piece(photo: Photo, *, shared: bool) -> Piece:
    """A photo's frame. What is out of sight is `removed`; members, who still have it unless it was deleted, get it along."""
    point = (photo.last_seq, photo.upload_number)
    if photo.visible or (photo.deleted_at is None and photo.visibility == "unpublished" and not shared):
        first = photo.visible and "firstFrame" not in photo.timeline
        return Piece(
            frames.encode("photo", _wire(photo, shared), photo.last_seq), point, photo.id if first else None
        )
    removed: dict[str, Any] = {
        "id": str(photo.id),
        "visibility": "deleted" if photo.deleted_at else photo.visibility,
    }
    if not shared and photo.deleted_at is None:
        removed["photo"] = _wire(photo, shared)
    return Piece(frames.encode("removed", removed, photo.last_seq), point)


def _wire(photo: Photo, shared: bool) -> dict[str, Any]:
    return photo_to_wire(photo, member=not shared)
