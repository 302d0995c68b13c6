"""Uploads that can be resumed: a row that counts what has arrived, and a row for each stretch of it that storage holds.

Whoever appends last is the writer; a request that began earlier finds another writer on the row and writes nothing, so bytes
never mix. An upload that is complete keeps its row until it expires, so that a client whose answer was lost learns of its photo.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.errors import NotFound
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.albums import get_album

LIFETIME_SECONDS = 24 * 3600.0  # since the last bytes that came
MAX_PARTS = 10_000  # a client that sends single bytes fills no disk with files


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload. `photo_id` once it is complete; `photo_created`: the photo was new."""

    id: UUID
    workspace_id: UUID
    album_id: UUID
    file_name: str
    length_bytes: int
    received_bytes: int
    metadata: str
    photo_id: UUID | None
    photo_created: bool | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class UploadPart:
    """A stretch of an upload that storage holds."""

    offset_bytes: int
    size_bytes: int
    sha256: bytes
    storage_key: str


class AlreadyComplete(Exception):
    """Another request has completed the upload: roll back, and look again."""


def _upload_of(row: Record) -> Upload:
    return Upload(**{field.name: row[field.name] for field in fields(Upload)})


async def create_upload(
    connection: Connection,
    workspace_id: UUID,
    album_id: UUID,
    *,
    file_name: str,
    length_bytes: int,
    metadata: str,
    lifetime_seconds: float = LIFETIME_SECONDS,
) -> Upload:
    """An upload of which nothing has arrived. NotFound without the album."""
    await get_album(connection, workspace_id, album_id)
    row = await connection.fetchrow(
        sql("uploads/create"),
        uuid4(),
        workspace_id,
        album_id,
        file_name,
        length_bytes,
        metadata,
        lifetime_seconds,
    )
    assert row is not None
    return _upload_of(row)


async def get_upload(connection: Connection, album_id: UUID, upload_id: UUID) -> Upload:
    """The upload; NotFound when the album has none with this id, or when it has expired or was terminated."""
    row = await connection.fetchrow(sql("uploads/get"), album_id, upload_id)
    if row is None:
        raise NotFound
    return _upload_of(row)


async def begin_append(connection: Connection, upload_id: UUID, offset: int, writer: UUID) -> bool:
    """Be the writer from now on; False when the upload is at another offset, complete, gone, or in too many parts."""
    return await connection.fetchval(sql("uploads/begin"), upload_id, offset, writer, MAX_PARTS) is not None


async def append_part(
    connection: Connection,
    upload_id: UUID,
    writer: UUID,
    part: UploadPart,
    lifetime_seconds: float = LIFETIME_SECONDS,
) -> Upload | None:
    """Count a stretch that storage holds; None, and nothing is written, when another one is the writer by now."""
    row = await connection.fetchrow(
        sql("uploads/append"),
        upload_id,
        writer,
        part.offset_bytes,
        part.size_bytes,
        part.sha256,
        part.storage_key,
        lifetime_seconds,
    )
    return None if row is None else _upload_of(row)


async def list_parts(connection: Connection, upload_id: UUID) -> list[UploadPart]:
    """What has arrived, in order."""
    rows = await connection.fetch(sql("upload_parts/list"), upload_id)
    return [UploadPart(**{field.name: row[field.name] for field in fields(UploadPart)}) for row in rows]


async def complete_upload(connection: Connection, upload: Upload, new: NewPhoto) -> tuple[Upload, list[str]]:
    """The photo, its job and its event; the upload then knows its photo, and no parts any more.

    `new.storage_key` may be that of the only part. The keys that are answered are in the trash, and may be removed at once.
    Raises NotFound (album or upload is gone), AlreadyComplete.
    """
    added = await add_photo(connection, upload.workspace_id, upload.album_id, new)
    row = await connection.fetchrow(sql("uploads/lock"), upload.id)
    if row is None:
        raise NotFound
    if row["photo_id"] is not None:
        raise AlreadyComplete
    keys = set(await _take_parts(connection, upload.id))
    if added.created:
        keys.discard(new.storage_key)
    else:
        keys.add(new.storage_key)
    await _trash(connection, list(keys))
    done = await connection.fetchrow(sql("uploads/complete"), upload.id, added.photo.id, added.created)
    assert done is not None
    return _upload_of(done), sorted(keys)


async def terminate_upload(connection: Connection, upload_id: UUID) -> list[str]:
    """Forget the upload and what has arrived of it; its photo, if there is one, stays. Answers as `complete_upload`."""
    await connection.fetchrow(sql("uploads/lock"), upload_id)
    keys = await _take_parts(connection, upload_id)
    await _trash(connection, keys)
    await connection.execute(sql("uploads/delete"), upload_id)
    return keys


async def expire_uploads(connection: Connection, *, limit: int) -> int:
    """Terminate those whose time is over, at most `limit`; answers how many. Their bytes are in the trash, due at once."""
    rows = await connection.fetch(sql("uploads/expired"), limit)
    for row in rows:
        await terminate_upload(connection, row["id"])
    return len(rows)


async def _take_parts(connection: Connection, upload_id: UUID) -> list[str]:
    return [row["storage_key"] for row in await connection.fetch(sql("upload_parts/take"), upload_id)]


async def _trash(connection: Connection, keys: list[str]) -> None:
    """They may go at once: the row in the trash is for the case that this process dies before it removes them."""
    if keys:
        await connection.execute(sql("trash/add"), keys, "upload", 0.0)
