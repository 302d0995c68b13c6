"""The object collector: removes what was deleted, and collects what no row names.

Each round: what is in the trash and due is removed; files of deleted and recalled photos go to the trash for an hour; signed
uploads that were never confirmed are forgotten. Now and then one process looks through the storage for orphans: objects of
ours, older than `orphan_seconds`, that no row names. They move into the folder `trash/` for `trash_seconds` more and are
removed then; a row that names one by then brings it back. Nothing is moved or removed without asking the rows right before.

A database that was restored from a backup does not know its newest objects. So the rounds mark the storage with a number that
the database counts; a storage that bears a greater number, or the mark of another database, has its orphans only reported.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass

from lingxi.db.session import Pool, transaction
from lingxi.domain.ids import parse_uuid
from lingxi.maintenance.loop import Loop
from lingxi.maintenance.storage_marks import StorageMarks
from lingxi.observability import failpoints
from lingxi.observability.logging import get_logger
from lingxi.services.collect_objects import (
    Trash,
    add_trash,
    clear_photos,
    due_trash,
    forget_trash,
    is_photo_gone,
    known_trash,
    live_keys,
    take_turn,
)
from lingxi.services.direct_uploads import INCOMING, expire_direct_uploads
from lingxi.services.resumable_uploads import expire_uploads
from lingxi.storage import ObjectMissing, Storage

DAY_SECONDS = 86_400.0
BATCH = 100
TRASH = "trash/"
_SCAN = "orphans_looked_for"
_MARK = "storage_marked"
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    """`photo_root` (`…/`) is where photos' variants lie. Ages count from when an object was stored, by the storage's clock."""

    photo_root: str
    interval_seconds: float = 600.0
    scan_seconds: float = 21_600.0
    orphan_seconds: float = 7 * DAY_SECONDS
    trash_seconds: float = 7 * DAY_SECONDS


@dataclass(slots=True)
class CollectCounts:
    """What one round did, in objects, prefixes or rows."""

    removed: int = 0  # from storage, out of the trash
    rescued: int = 0  # out of the trash, since a row names them
    photos_cleared: int = 0  # deleted or recalled photos whose files went to the trash
    uploads_forgotten: int = 0  # signed and never confirmed
    uploads_expired: int = 0  # resumable ones that nobody went on with, or that are complete since long
    orphans: int = 0  # moved into the trash
    reported: int = 0  # orphans that were left alone: the database may have been restored
    unfinished: int = 0  # uploads that crashed


class ObjectCollector(Loop):
    """The loop; `run_once()` is one round."""

    name = "object_collection"

    def __init__(self, pool: Pool, storage: Storage, config: CollectorConfig) -> None:
        self.interval_seconds = config.interval_seconds
        self.stopping = asyncio.Event()
        self._pool = pool
        self._storage = storage
        self._config = config
        self._marks = StorageMarks(pool, storage)

    async def done_once(self) -> dict[str, int]:
        """See `Loop.done_once`."""
        return asdict(await self.run_once())

    async def run_once(self, *, scan: bool = False) -> CollectCounts:
        """One round; answers what it did. `scan`: look for orphans although it is not yet time. Raises StorageUnavailable."""
        counts = CollectCounts()
        await self._clear_rows(counts)
        await self._empty_trash(counts)
        restored = await self._marks.restored()
        if not restored and await self._is_turn(_MARK, self._config.interval_seconds / 2):
            await self._marks.mark()
        if await self._is_turn(_SCAN, 0.0 if scan else self._config.scan_seconds):
            await self._scan(counts, touch=not restored)
            counts.unfinished = await self._storage.sweep_unfinished(
                older_than_seconds=self._config.orphan_seconds
            )
        if counts.reported:
            _log.warning("orphans_reported", count=counts.reported, mend="lingxi storage accept-database")
        return counts

    async def _is_turn(self, what: str, every_seconds: float) -> bool:
        async with transaction(self._pool) as connection:
            return await take_turn(connection, what, every_seconds=every_seconds)

    async def _clear_rows(self, counts: CollectCounts) -> None:
        for step, name in (
            (clear_photos, "photos_cleared"),
            (expire_direct_uploads, "uploads_forgotten"),
            (expire_uploads, "uploads_expired"),
        ):
            while not self.stopping.is_set():
                async with transaction(self._pool) as connection:
                    done = await step(connection, limit=BATCH)
                setattr(counts, name, getattr(counts, name) + done)
                if done < BATCH:
                    break

    # ── the trash ────────────────────────────────────────────────────────────────────────────────────────
    async def _empty_trash(self, counts: CollectCounts) -> None:
        """Rows stay locked while their objects are removed: a crash leaves rows, and they are taken again."""
        while not self.stopping.is_set():
            async with transaction(self._pool) as connection:
                due = await due_trash(connection, limit=BATCH)
                live = await live_keys(connection, [one.storage_key.removeprefix(TRASH) for one in due])
                for one in due:
                    if one.storage_key.removeprefix(TRASH) in live:
                        counts.rescued += await self._rescue(one)
                    elif one.storage_key.endswith("/"):
                        photo_id = parse_uuid(one.storage_key.rstrip("/").rpartition("/")[2])
                        if photo_id is not None and await is_photo_gone(connection, photo_id):
                            counts.removed += await self._storage.delete_prefix(
                                self._config.photo_root + one.storage_key
                            )
                    else:
                        await self._storage.delete(one.storage_key)
                        counts.removed += 1
                await failpoints.reach("collector.before_commit")
                await forget_trash(connection, [one.storage_key for one in due])
            if len(due) < BATCH:
                return

    async def _rescue(self, one: Trash) -> int:
        """A row names it: it stays, or comes back from the folder of orphans."""
        _log.warning("trash_is_needed", storage_key=one.storage_key, reason=one.reason)
        if one.storage_key.startswith(TRASH):
            try:
                await self._storage.move(one.storage_key, one.storage_key.removeprefix(TRASH))
            except ObjectMissing:
                return 0
        return 1

    # ── orphans ──────────────────────────────────────────────────────────────────────────────────────────
    async def _scan(self, counts: CollectCounts, *, touch: bool) -> None:
        for prefix in ("", INCOMING, self._config.photo_root):
            async for keys in self._old_keys(prefix):
                orphans = await self._orphans_among(keys)
                if not touch:
                    counts.reported += len(orphans)
                    continue
                for key in orphans:
                    counts.orphans += await self._trash_orphan(key)
        if touch:
            async for keys in self._old_keys(TRASH):
                await self._remember_strays(keys)

    async def _old_keys(self, prefix: str) -> AsyncIterator[list[str]]:
        """Batches of keys that are old enough."""
        batch: list[str] = []
        async for one in self._storage.list_keys(prefix, older_than_seconds=self._config.orphan_seconds):
            if self.stopping.is_set():
                return
            batch.append(one.key)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _orphans_among(self, keys: Sequence[str]) -> list[str]:
        """Those that no row names and no trash holds, and that are ours by what storage says."""
        async with self._pool.acquire() as connection:
            known = await live_keys(connection, keys) | await known_trash(connection, keys)
        return [key for key in keys if key not in known and await self._is_ours(key)]

    async def _is_ours(self, key: str) -> bool:
        try:
            return (await self._storage.stat(key)).ours
        except ObjectMissing:
            return False

    async def _trash_orphan(self, key: str) -> int:
        """The row first: what a crash in between leaves where it lies is an orphan again for the next look."""
        async with transaction(self._pool) as connection:
            await add_trash(connection, [TRASH + key], "orphan", after_seconds=self._config.trash_seconds)
        await failpoints.reach("collector.before_move")
        async with self._pool.acquire() as connection:
            if await live_keys(connection, [key]):
                return 0
        try:
            found = await self._storage.stat(key)
            if found.modified_at > time.time() - self._config.orphan_seconds:
                return 0  # put again meanwhile, by an attempt whose row is still to come
            await self._storage.move(key, TRASH + key)
        except ObjectMissing:
            return 0
        return 1

    async def _remember_strays(self, keys: Sequence[str]) -> None:
        """Objects in the folder of which the rows were lost get new ones, with all of their time before them."""
        async with transaction(self._pool) as connection:
            known = await known_trash(connection, keys)
            strays = [key for key in keys if key not in known]
            if strays:
                await add_trash(connection, strays, "orphan", after_seconds=self._config.trash_seconds)
