"""Publish a photo: variants, state, version and event in one transaction, or nothing of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

import orjson

from lingxi.db.photo_rows import photo_of
from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.photos import Photo, ProcessingState, Variant, Visibility, published_payload
from lingxi.services.outbox_events import photo_event

Answer = Literal["published", "already", "skipped"]
SUPERSEDED_AFTER_SECONDS = 3_600.0  # viewers that hold an old address may still be fetching it


class Rollback(Exception):
    """Somebody else won, or the photo is gone: the caller rolls its transaction back and answers `answer`."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Made:
    """What the pipeline has made and stored of a photo."""

    generation: int
    width: int
    height: int
    captured_at: datetime | None
    variants: Sequence[Variant]
    times: Mapping[str, datetime]


async def publish_photo(connection: Connection, photo_id: UUID, made: Made, *, first: bool) -> Photo:
    """Publish for the first time (`first`) or a later generation; answers the photo as it is now.

    Raises Rollback when no row could be updated; then nothing of the open transaction may be committed.
    """
    before = await lock_photo(connection, photo_id)
    number = await connection.fetchval(sql("albums/next_number"), before.album_id)
    row = await connection.fetchrow(
        sql("photos/publish" if first else "photos/republish"),
        photo_id,
        made.generation,
        made.width,
        made.height,
        made.captured_at,
        number,
        orjson.dumps({**made.times, "committed": datetime.now(UTC)}).decode(),
    )
    if row is None:
        raise Rollback("already")
    await _replace_variants(connection, photo_id, made)
    photo = replace(photo_of(row), variants=tuple(made.variants))
    if photo.visibility == Visibility.PUBLISHED:
        type_ = "photo.published" if first else "photo.updated"
        await photo_event(connection, type_, photo.workspace_id, published_payload(photo))
    return photo


async def lock_photo(connection: Connection, photo_id: UUID) -> Photo:
    """Lock the photo's album and then the photo; Rollback("skipped") when it was deleted or recalled."""
    row = await connection.fetchrow(sql("photos/for_work"), photo_id)
    if row is None:
        raise Rollback("skipped")
    album = await connection.fetchrow(sql("albums/lock"), row["album_id"])
    row = await connection.fetchrow(sql("photos/lock"), photo_id)
    if album is None or album["deleted"] or row is None:
        raise Rollback("skipped")
    photo = photo_of(row)
    if photo.deleted_at is not None or photo.visibility == Visibility.RECALLED:
        raise Rollback("skipped")
    return photo


async def _replace_variants(connection: Connection, photo_id: UUID, made: Made) -> None:
    old = await connection.fetch(sql("photo_variants/of_photos"), [photo_id])
    kept = {variant.storage_key for variant in made.variants}
    replaced = [row["storage_key"] for row in old if row["storage_key"] not in kept]
    await connection.execute(
        sql("photo_variants/upsert"),
        photo_id,
        [variant.kind for variant in made.variants],
        made.generation,
        [variant.storage_key for variant in made.variants],
        [variant.file_name for variant in made.variants],
        [variant.width for variant in made.variants],
        [variant.height for variant in made.variants],
        [variant.size_bytes for variant in made.variants],
        [variant.sha256 for variant in made.variants],
        [variant.content_type for variant in made.variants],
    )
    if replaced:
        await connection.execute(sql("trash/add"), replaced, "replaced", SUPERSEDED_AFTER_SECONDS)


async def fail_photo(connection: Connection, photo_id: UUID, code: str) -> Photo | None:
    """The last attempt failed: `processing_failed` with the pipeline's code. None when it has moved on meanwhile."""
    try:
        photo = await lock_photo(connection, photo_id)
    except Rollback:
        return None
    if photo.processing_state != ProcessingState.UPLOADED:
        return None
    number = await connection.fetchval(sql("albums/next_number"), photo.album_id)
    row = await connection.fetchrow(sql("photos/fail"), photo_id, code, number)
    return None if row is None else photo_of(row)
