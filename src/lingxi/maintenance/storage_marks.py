"""Whether the database is the one that used this storage last, and knows all that was put there.

The database has a name and counts; the storage holds an empty object `lingxi/marks/<name>/<count>`. The database counts first.
So the storage is never ahead, unless the database went back in time (a backup was restored) or is another one.
"""

from collections.abc import AsyncIterator

from lingxi.db.session import Pool, transaction
from lingxi.services.collect_objects import next_storage_epoch, storage_epoch, storage_identity
from lingxi.storage import Storage

MARKS = "lingxi/marks/"


class StorageMarks:
    """The marks of one storage, and what one database says to them."""

    def __init__(self, pool: Pool, storage: Storage) -> None:
        self._pool = pool
        self._storage = storage

    async def restored(self) -> bool:
        """Does the storage bear a mark that this database has not made?"""
        marks = [one.key async for one in self._storage.list_keys(MARKS)]
        async with transaction(
            self._pool
        ) as connection:  # after the listing: a count that is read later is no smaller
            name, epoch = (await storage_identity(connection)).hex, await storage_epoch(connection)
        return any(_made_by(mark) != name or _count(mark) > epoch for mark in marks)

    async def mark(self) -> None:
        """Count, mark the storage with the count, and take older marks of ours away."""
        async with transaction(self._pool) as connection:
            name = (await storage_identity(connection)).hex
            epoch = await next_storage_epoch(connection)
        await self._storage.put(_nothing(), max_bytes=1, key=f"{MARKS}{name}/{epoch:012}")
        async for one in self._storage.list_keys(f"{MARKS}{name}/"):
            if _count(one.key) < epoch:
                await self._storage.delete(one.key)

    async def accept(self) -> int:
        """Somebody has decided that this database knows what it needs: all marks go, and ours is made. How many went."""
        marks = [one.key async for one in self._storage.list_keys(MARKS)]
        for mark in marks:
            await self._storage.delete(mark)
        await self.mark()
        return len(marks)


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


def _made_by(mark: str) -> str:
    return mark.removeprefix(MARKS).partition("/")[0]


def _count(mark: str) -> int:
    text = mark.rpartition("/")[2]
    return int(text) if text.isdigit() else 0
