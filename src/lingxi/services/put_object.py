"""Put an object: its bytes into storage first, then its row in one transaction.

    async with receive_object(storage, chunks, max_bytes=limit) as received:
        async with transaction(pool) as connection:
            put = await put_object(connection, workspace_id, name, received)

The bytes of whoever loses (the name was there, or came meanwhile) are removed at the end of the outer block. Bytes
whose row was inserted stay, also when the commit fails: its answer may be what was lost. If there is no row after
all, they are an orphan, and are collected as such.
"""

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, LingxiError, TooLarge
from lingxi.imaging.sniff import HEAD_BYTES, content_type_of
from lingxi.observability.logging import get_logger
from lingxi.services.get_object import StoredObject, checked_object_name, find_object
from lingxi.storage import ObjectTooLarge, Storage, StorageUnavailable, StoredBytes

_log = get_logger("services.put_object")


@dataclass(slots=True)
class ReceivedObject:
    """Bytes that are durable and that no row names yet."""

    stored: StoredBytes
    content_type: str  # by content, not by name or header
    recorded: bool = False  # a row that names them was inserted


@dataclass(frozen=True, slots=True)
class PutObject:
    """The object under the name; `created` is false when it was there before, with the same bytes."""

    object: StoredObject
    created: bool


@asynccontextmanager
async def receive_object(
    storage: Storage, chunks: AsyncIterable[bytes], *, max_bytes: int
) -> AsyncIterator[ReceivedObject]:
    """Store a stream and lend it to the block. TooLarge names the limit; LingxiError (50001) when storage fails."""
    head = bytearray()

    async def watched() -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if (missing := HEAD_BYTES - len(head)) > 0:
                head.extend(chunk[:missing])
            yield chunk

    try:
        stored = await storage.put(watched(), max_bytes=max_bytes)
    except ObjectTooLarge as error:
        raise TooLarge(f"The object is larger than {error.limit_bytes} bytes.") from error
    except StorageUnavailable as error:
        _log.error("object_not_stored", reason=str(error))
        raise LingxiError("Object storage cannot serve now; try again later.") from error
    received = ReceivedObject(stored, content_type_of(bytes(head)))
    try:
        yield received
    finally:
        if not received.recorded:
            await _remove(storage, stored)


async def put_object(
    connection: Connection, workspace_id: UUID, name: str, received: ReceivedObject
) -> PutObject:
    """Insert the row that names the bytes; MalformedRequest for a bad name, Conflict for a name with other bytes.

    The same name with the same bytes is the object that is there, whose age begins anew. A name may have been removed
    between the insert that met it and the look at it: then the insert is tried again.
    """
    name = checked_object_name(name)
    stored = received.stored
    while True:
        record = await connection.fetchrow(
            sql("objects/insert"),
            workspace_id,
            name,
            stored.key,
            stored.size_bytes,
            stored.sha256,
            received.content_type,
        )
        if record is not None:
            received.recorded = True
            return PutObject(StoredObject.from_record(record), created=True)
        existing = await find_object(connection, workspace_id, name)
        if existing is not None:
            if existing.sha256 != stored.sha256:
                raise Conflict("An object with this name exists and has other bytes.")
            if await connection.fetchval(sql("objects/keep"), workspace_id, name):
                return PutObject(existing, created=False)


async def _remove(storage: Storage, stored: StoredBytes) -> None:
    try:
        await storage.delete(stored.key)
    except StorageUnavailable as error:
        _log.warning("orphan_left", storage_key=stored.key, reason=str(error))
