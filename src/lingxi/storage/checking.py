"""How every storage is tried: write, read and remove a few bytes."""

from collections.abc import AsyncIterator

from lingxi.storage.errors import ObjectMissing, StorageUnavailable
from lingxi.storage.port import Storage

_WRITTEN = b"lingxi"


async def check_by_trying(storage: Storage) -> None:
    """StorageUnavailable, with a sentence on what is wrong."""

    async def chunks() -> AsyncIterator[bytes]:
        yield _WRITTEN

    stored = await storage.put(chunks(), max_bytes=len(_WRITTEN))
    try:
        reader = await storage.open(stored.key)
        if b"".join([chunk async for chunk in reader]) != _WRITTEN:
            raise StorageUnavailable("storage gives back other bytes than were written")
    except ObjectMissing:
        raise StorageUnavailable("storage does not give back what was written") from None
    finally:
        await storage.delete(stored.key)
