"""A photo whose original is stored becomes a row, a job and an event, in one transaction."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

import orjson

from lingxi.db.photo_rows import photo_of
from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import NotFound
from lingxi.domain.photos import Photo, ProcessingState
from lingxi.services.outbox_events import photo_event
from lingxi.services.read_photos import with_variants
from lingxi.services.remember_trace import remember_trace


@dataclass(frozen=True, slots=True)
class NewPhoto:
    """A stored original. `received_at` is when its upload began."""

    file_name: str
    storage_key: str
    size_bytes: int
    sha256: bytes
    content_type: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Added:
    """The photo, and whether it is new. When it is not, the caller removes the bytes that it has stored."""

    photo: Photo
    created: bool


async def add_photo(connection: Connection, workspace_id: UUID, album_id: UUID, new: NewPhoto) -> Added:
    """The same bytes again are the same photo; one that had failed is processed anew. NotFound without the album."""
    album = await connection.fetchrow(sql("albums/lock"), album_id)
    if album is None or album["deleted"]:
        raise NotFound
    same = await connection.fetchrow(sql("photos/find_same"), album_id, new.sha256)
    if same is not None:
        return Added(await _again(connection, photo_of(same)), created=False)
    numbers = await connection.fetchrow(sql("albums/next_upload"), album_id)
    assert numbers is not None
    times = {"received": new.received_at, "stored": datetime.now(UTC)}
    row = await connection.fetchrow(
        sql("photos/insert"),
        uuid4(),
        workspace_id,
        album_id,
        numbers["last_upload"],
        new.file_name,
        new.storage_key,
        new.size_bytes,
        new.sha256,
        new.content_type,
        numbers["last_seq"],
        orjson.dumps(times).decode(),
    )
    assert row is not None
    photo = photo_of(row)
    await _enqueue(connection, photo)
    return Added(photo, created=True)


async def _again(connection: Connection, photo: Photo) -> Photo:
    if photo.processing_state == ProcessingState.PROCESSING_FAILED:
        number = await connection.fetchval(sql("albums/next_number"), photo.album_id)
        row = await connection.fetchrow(sql("photos/process_anew"), photo.id, number)
        if row is not None:
            photo = photo_of(row)
            await _enqueue(connection, photo)
    return (await with_variants(connection, [photo]))[0]


async def _enqueue(connection: Connection, photo: Photo) -> None:
    await connection.execute(sql("photo_jobs/insert"), photo.id)
    payload = {"v": 1, "photoId": str(photo.id), "albumId": str(photo.album_id)}
    await photo_event(connection, "photo.uploaded", photo.workspace_id, payload)
    await remember_trace(connection, photo.id)
