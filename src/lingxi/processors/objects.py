"""Objects of an item's workspace as files, and files as objects of it."""

import asyncio
import contextlib
import hashlib
import secrets
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, LingxiError, MalformedRequest, Permanent, Transient
from lingxi.domain.object_names import normalise_object_name
from lingxi.processors.context import Context, FetchedObject
from lingxi.services.get_object import StoredObject, find_object
from lingxi.services.put_object import put_object as record_object
from lingxi.services.put_object import receive_object
from lingxi.storage import CHUNK_BYTES, ObjectMissing, Storage, StorageUnavailable

_DATABASE_RETRY_SECONDS = 1.0


async def fetch_object(
    connect: Callable[[], AbstractAsyncContextManager[Connection]],
    storage: Storage,
    context: Context,
    name: str,
) -> FetchedObject:
    """Copy the object `name` of the item's workspace into a new scratch file, and see that it is what was put.

    Permanent `object_not_found` (also for what is no name, and for another workspace's) or `checksum_mismatch`, Transient
    `storage_unavailable`. While PostgreSQL is away this waits: an outage is no fault of the item.
    """
    found = await find_waiting(connect, context, name)
    path = context.scratch() / f"object-{secrets.token_hex(6)}"
    try:
        reader = await storage.open(found.storage_key)
    except ObjectMissing as error:
        raise Permanent("object_not_found", "The object's bytes are gone from storage.") from error
    except StorageUnavailable as error:
        raise Transient("storage_unavailable") from error
    digest = hashlib.sha256()
    try:
        with open(path, "xb", buffering=0) as file:  # noqa: ASYNC230 - only the writing takes time

            def take(chunk: bytes) -> None:
                digest.update(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]

            async for chunk in reader:
                await asyncio.to_thread(take, chunk)
    except StorageUnavailable as error:
        raise Transient("storage_unavailable") from error
    finally:
        await reader.close()
    if digest.digest() != found.sha256:
        raise Permanent("checksum_mismatch", "The stored bytes are no longer the ones that were put.")
    return FetchedObject(path, found)


async def find_waiting(
    connect: Callable[[], AbstractAsyncContextManager[Connection]], context: Context, name: str
) -> StoredObject:
    """The object's row; Permanent `object_not_found`. Waits while PostgreSQL is away, until the attempt should stop."""
    try:
        normal = normalise_object_name(name)
    except ValueError:
        raise Permanent("object_not_found") from None
    while True:
        try:
            async with connect() as connection:
                found = await find_object(connection, context.item.workspace_id, normal)
            break
        except Transient:
            if context.stopping.is_set():
                raise
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(context.stopping.wait(), _DATABASE_RETRY_SECONDS)
    if found is None:
        raise Permanent("object_not_found")
    return found


async def put_object(storage: Storage, context: Context, name: str, path: Path) -> StoredObject:
    """Store the file, then name it in a transaction behind the fence. The same bytes again: the object that is there.

    Permanent `object_exists` or `input_invalid` (for what is no name), Transient `storage_unavailable`.
    """
    found = await asyncio.to_thread(path.stat)
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("only a file can be stored")  # to open a pipe is to wait for its other end
    try:
        async with (
            receive_object(storage, chunks_of(path), max_bytes=found.st_size) as received,
            context.transaction() as connection,
        ):
            put = await record_object(connection, context.item.workspace_id, name, received)
    except Conflict as error:
        raise Permanent("object_exists") from error
    except MalformedRequest as error:
        raise Permanent("input_invalid", error.detail) from error
    except LingxiError as error:  # what `receive_object` makes of a storage that failed
        raise Transient("storage_unavailable") from error
    return put.object


async def chunks_of(path: Path) -> AsyncIterator[bytes]:
    """A file's bytes, read in a thread."""
    with open(path, "rb") as file:  # noqa: ASYNC230 - only the reading takes time
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
