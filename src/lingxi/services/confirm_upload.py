"""Confirm an upload that went straight to storage: its bytes are copied, hashed and looked at, and become an object or a photo.

    upload = await get_direct_upload(connection, workspace_id, upload_id)
    async with receive_direct_upload(storage, upload, max_bytes=limit) as received:
        async with transaction(pool) as connection:
            put = await confirm_object(connection, upload, received)
    await forget_incoming(storage, upload)

A photo is received by `receive_direct_photo`, which answers what `receive_photo` answers, and confirmed by `confirm_photo`.
Confirming again finds what is there. Of several confirmations at the same time one is the first; the others get Conflict,
because what arrived is gone or because the first has committed: they find it by `get_direct_upload`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, LingxiError, NotFound
from lingxi.observability.logging import get_logger
from lingxi.services.add_photo import Added, add_photo
from lingxi.services.direct_uploads import DirectUpload
from lingxi.services.put_object import PutObject, ReceivedObject, put_object, receive_object
from lingxi.services.receive_photo import ReceivedPhoto, discard_unrecorded, receive_photo
from lingxi.storage import ObjectMissing, ObjectReader, Storage, StorageUnavailable

_log = get_logger("services.confirm_upload")


@asynccontextmanager
async def receive_direct_upload(
    storage: Storage, upload: DirectUpload, *, max_bytes: int
) -> AsyncIterator[ReceivedObject]:
    """Copy what has arrived and lend the copy to the block, as `receive_object` does.

    Conflict when nothing has arrived or the bytes are not those that were announced; TooLarge; LingxiError (50001) when
    storage fails.
    """
    async with (
        _arrived(storage, upload) as reader,
        receive_object(storage, reader, max_bytes=max_bytes) as received,
    ):
        _check_digest(upload, received.stored.sha256)
        yield received


@asynccontextmanager
async def receive_direct_photo(
    storage: Storage, upload: DirectUpload, *, max_bytes: int
) -> AsyncIterator[ReceivedPhoto]:
    """Copy what has arrived as a photo's original, or say why it is none. Bytes of which no row was inserted go at the end."""
    async with _arrived(storage, upload) as reader:
        received = await receive_photo(storage, upload.name, reader, max_bytes=max_bytes, with_digest=True)
    try:
        _check_digest(upload, received.sha256)
        yield received
    finally:
        await discard_unrecorded(storage, [received])


async def confirm_object(connection: Connection, upload: DirectUpload, received: ReceivedObject) -> PutObject:
    """The object's row; Conflict when the name has other bytes, or another confirmation was first."""
    await _be_first(connection, upload)
    put = await put_object(connection, upload.workspace_id, upload.name, received)
    await connection.execute(sql("direct_uploads/confirm"), upload.id, None)
    return put


async def confirm_photo(connection: Connection, upload: DirectUpload, received: ReceivedPhoto) -> Added:
    """The photo's rows and event, for a file that was not refused. NotFound without the album; Conflict if another was first."""
    assert upload.album_id is not None
    assert received.new is not None
    await _be_first(connection, upload)
    added = await add_photo(connection, upload.workspace_id, upload.album_id, received.new)
    received.recorded = added.created
    await connection.execute(sql("direct_uploads/confirm"), upload.id, added.photo.id)
    return added


async def forget_incoming(storage: Storage, upload: DirectUpload) -> None:
    """Remove what arrived, now that it was copied. What cannot be removed, or arrives again, is collected later."""
    try:
        await storage.delete(upload.storage_key)
    except StorageUnavailable as error:
        _log.warning("orphan_left", storage_key=upload.storage_key, reason=str(error))


async def _be_first(connection: Connection, upload: DirectUpload) -> None:
    """The address may have been given other bytes since another confirmation read it: they must not become a second photo."""
    row = await connection.fetchrow(sql("direct_uploads/lock"), upload.id)
    if row is None:
        raise NotFound
    if row["confirmed_at"] is not None:
        raise Conflict("This upload has been confirmed meanwhile.")


@asynccontextmanager
async def _arrived(storage: Storage, upload: DirectUpload) -> AsyncIterator[ObjectReader]:
    try:
        reader = await storage.open(upload.storage_key)
    except ObjectMissing:
        raise Conflict("Nothing has arrived under the signed address yet.") from None
    except StorageUnavailable as error:
        _log.error("upload_not_read", reason=str(error))
        raise LingxiError("Object storage cannot serve now; try again later.") from error
    try:
        yield reader
    finally:
        await reader.close()


def _check_digest(upload: DirectUpload, sha256: bytes) -> None:
    if upload.sha256 is not None and sha256 != upload.sha256:
        raise Conflict("The bytes that arrived have another SHA-256 than was announced.")
