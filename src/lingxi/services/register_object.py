"""Register media that lie in the bucket already: they are read once, for their type, size and SHA-256, and stay where they are.

Only below a prefix that an operator allowed for the workspace, and never what this service has put there itself. What is not
allowed answers like what is not there.
"""

import hashlib
from uuid import UUID

from lingxi.db.session import Connection
from lingxi.domain.errors import LingxiError, NotFound, TooLarge
from lingxi.imaging.sniff import HEAD_BYTES, content_type_of
from lingxi.observability.logging import get_logger
from lingxi.services.object_prefixes import is_allowed
from lingxi.services.put_object import PutObject, ReceivedObject, put_object
from lingxi.storage import ObjectMissing, Storage, StorageUnavailable, StoredBytes
from lingxi.storage.port import MEDIA, check_readable_key

_log = get_logger("services.register_object")


async def check_may_register(connection: Connection, workspace_id: UUID, media_name: str) -> None:
    """NotFound unless it lies below a prefix of the workspace."""
    try:
        check_readable_key(MEDIA + media_name)
    except ValueError:
        raise NotFound from None
    if not await is_allowed(connection, workspace_id, media_name):
        raise NotFound


async def read_media(storage: Storage, media_name: str, *, max_bytes: int) -> ReceivedObject:
    """Read it once. NotFound when there is nothing, or it is ours; TooLarge; LingxiError (50001) when storage fails."""
    key = MEDIA + media_name
    digest, head, size_bytes = hashlib.sha256(), bytearray(), 0
    try:
        found = await storage.stat(key)
        if found.ours:
            raise NotFound
        if found.size_bytes > max_bytes:
            raise TooLarge(f"The object is larger than {max_bytes} bytes.")
        async for chunk in await storage.open(key):
            digest.update(chunk)
            size_bytes += len(chunk)
            if len(head) < HEAD_BYTES:
                head += chunk[: HEAD_BYTES - len(head)]
    except ObjectMissing:
        raise NotFound from None
    except StorageUnavailable as error:
        _log.error("media_not_read", reason=str(error))
        raise LingxiError("Object storage cannot serve now; try again later.") from error
    return ReceivedObject(
        StoredBytes(key, size_bytes, digest.digest()), content_type_of(bytes(head)), recorded=True
    )


async def register_object(
    connection: Connection, workspace_id: UUID, name: str, media: ReceivedObject
) -> PutObject:
    """The object's row, as `put_object` inserts it. The permission is looked at again: reading may have taken long."""
    await check_may_register(connection, workspace_id, media.stored.key.removeprefix(MEDIA))
    return await put_object(connection, workspace_id, name, media)
