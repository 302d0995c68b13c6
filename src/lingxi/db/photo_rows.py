"""Rows of albums, photos and variants as the domain's values."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from uuid import UUID

import orjson

from lingxi.db.session import Record
from lingxi.domain.photos import Album, Photo, Variant

_PHOTO_COLUMNS = [field.name for field in fields(Photo) if field.name not in ("timeline", "variants")]
_VARIANT_COLUMNS = [field.name for field in fields(Variant)]


def album_of(row: Record) -> Album:
    """A row of albums."""
    return Album(
        row["id"],
        row["workspace_id"],
        row["name"],
        row["originals_shared"],
        row["created_at"],
        row["deleted_at"],
        row["last_seq"],
    )


def variant_of(row: Record) -> Variant:
    """A row of photo_variants."""
    return Variant(**{name: row[name] for name in _VARIANT_COLUMNS})


def photo_of(row: Record, variants: Sequence[Variant] = ()) -> Photo:
    """A row of photos, with its variants where they were read."""
    return Photo(
        **{name: row[name] for name in _PHOTO_COLUMNS},
        timeline=orjson.loads(row["timeline"]),
        variants=tuple(variants),
    )


def photos_of(rows: Sequence[Record], variants: Iterable[Record]) -> list[Photo]:
    """Photos in the order of `rows`, each with its variants."""
    by_photo: dict[UUID, list[Variant]] = defaultdict(list)
    for row in variants:
        by_photo[row["photo_id"]].append(variant_of(row))
    return [photo_of(row, by_photo[row["id"]]) for row in rows]
