"""Hide, show, recall and delete photos; each is seen by viewers at once and takes a number of the album's feed."""

from uuid import UUID

from lingxi.db.photo_rows import photo_of
from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.photos import Photo, ProcessingState, Visibility, published_payload
from lingxi.services.outbox_events import photo_event
from lingxi.services.publish_photo import Rollback, lock_photo
from lingxi.services.read_photos import with_variants

REMOVED_AFTER_SECONDS = 3_600.0  # well inside the day that is promised


async def hide_photo(connection: Connection, album_id: UUID, photo_id: UUID) -> Photo:
    """Out of sight; it can come back. Also before it is published: it then becomes ready without being shown."""
    photo = await _locked(connection, album_id, photo_id)
    if photo.visibility == Visibility.HIDDEN:
        return await _as_it_is(connection, photo)
    was_seen = photo.visibility == Visibility.PUBLISHED
    return await _set(connection, photo, Visibility.HIDDEN, "photo.removed" if was_seen else None)


async def show_photo(connection: Connection, album_id: UUID, photo_id: UUID) -> Photo:
    """Back into sight. One that is not ready yet is published when it is."""
    photo = await _locked(connection, album_id, photo_id)
    if photo.visibility != Visibility.HIDDEN:
        return await _as_it_is(connection, photo)
    if photo.processing_state != ProcessingState.READY:
        return await _set(connection, photo, Visibility.UNPUBLISHED, None)
    first = photo.published_at is None
    return await _set(
        connection, photo, Visibility.PUBLISHED, "photo.published" if first else "photo.updated"
    )


async def recall_photo(connection: Connection, album_id: UUID, photo_id: UUID) -> Photo:
    """Taken back for good: its variants and its original are removed within a day. Again is the same."""
    row = await connection.fetchrow(sql("photos/get"), album_id, photo_id)
    if row is not None and row["visibility"] == Visibility.RECALLED:
        return photo_of(row)
    photo = await _locked(connection, album_id, photo_id)
    await _remove_files(connection, photo)
    return await _set(connection, photo, Visibility.RECALLED, "photo.removed")


async def delete_photo(connection: Connection, album_id: UUID, photo_id: UUID) -> Photo:
    """The photo is gone for everybody; its original and variants are removed within a day."""
    row = await connection.fetchrow(sql("albums/lock"), album_id)
    found = await connection.fetchrow(sql("photos/get"), album_id, photo_id)
    if row is None or found is None:
        raise NotFound
    number = await connection.fetchval(sql("albums/next_number"), album_id)
    deleted = await connection.fetchrow(sql("photos/delete"), photo_id, number)
    if deleted is None:
        raise NotFound
    photo = photo_of(deleted)
    await _remove_files(connection, photo)
    await _tell_removed(connection, photo)
    return photo


async def _locked(connection: Connection, album_id: UUID, photo_id: UUID) -> Photo:
    if await connection.fetchrow(sql("photos/get"), album_id, photo_id) is None:
        raise NotFound
    try:
        return await lock_photo(connection, photo_id)
    except Rollback:
        raise Conflict("The photo was recalled or deleted; that cannot be undone.") from None


async def _as_it_is(connection: Connection, photo: Photo) -> Photo:
    return (await with_variants(connection, [photo]))[0]


async def _set(connection: Connection, photo: Photo, visibility: Visibility, event: str | None) -> Photo:
    number = await connection.fetchval(sql("albums/next_number"), photo.album_id)
    row = await connection.fetchrow(sql("photos/set_visibility"), photo.id, visibility.value, number)
    assert row is not None
    (changed,) = await with_variants(connection, [photo_of(row)])
    if event == "photo.removed":
        await _tell_removed(connection, changed)
    elif event is not None:
        await photo_event(connection, event, changed.workspace_id, published_payload(changed))
    return changed


async def _remove_files(connection: Connection, photo: Photo) -> None:
    """Original and variants go to the trash; of the variants the rows go at once."""
    variants = await connection.fetch(sql("photo_variants/remove"), photo.id)
    keys = [photo.storage_key, *(row["storage_key"] for row in variants)]
    await connection.execute(sql("trash/add"), keys, "removed", REMOVED_AFTER_SECONDS)


async def _tell_removed(connection: Connection, photo: Photo) -> None:
    payload = {
        "v": 1,
        "photoId": str(photo.id),
        "albumId": str(photo.album_id),
        "entityVersion": photo.entity_version,
        "visibility": photo.visibility,
    }
    await photo_event(connection, "photo.removed", photo.workspace_id, payload)
