"""The object collector on both storages: what was deleted is gone, orphans wait in the trash, what a row names is not touched."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from lingxi.db.query import sql
from lingxi.domain.photos import Photo, Variant
from lingxi.maintenance.object_collector import CollectorConfig, ObjectCollector
from lingxi.maintenance.storage_marks import StorageMarks
from lingxi.observability import failpoints
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.albums import create_album, delete_album
from lingxi.services.publish_photo import Made, publish_photo
from lingxi.services.put_object import put_object, receive_object
from lingxi.services.steer_photo import delete_photo, hide_photo, recall_photo
from lingxi.storage import ObjectMissing, StorageUnavailable
from tests.integration.storage.places import (
    LIMIT,
    BucketPlace,
    FolderPlace,
    Place,
    chunks_of,
    open_place,
    read,
)
from tests.support.waiting import wait_until

Pool = asyncpg.Pool
ROOT = "photo-live/dev/"
AT_ONCE = CollectorConfig(
    ROOT, interval_seconds=0.0, orphan_seconds=-5.0, trash_seconds=0.0, scan_seconds=0.0
)
DAY_SECONDS = 86_400


@dataclass
class Stage:
    """A workspace with an album, on one storage."""

    pool: Pool
    place: Place
    workspace_id: uuid.UUID
    album_id: uuid.UUID

    def collector(self, **changes: Any) -> ObjectCollector:
        return ObjectCollector(self.pool, self.place.storage, replace(AT_ONCE, **changes))

    async def photo(self, *, generations: int = 1) -> Photo:
        """A photo that was published so often, with its files of every generation."""
        stored = await self.place.storage.put(chunks_of(os.urandom(100)), max_bytes=LIMIT)
        new = NewPhoto("a.jpg", stored.key, stored.size_bytes, stored.sha256, "image/jpeg", datetime.now(UTC))
        async with self.pool.acquire() as connection, connection.transaction():
            photo = (await add_photo(connection, self.workspace_id, self.album_id, new)).photo
        for generation in range(1, generations + 1):
            await self.publish(photo, generation)
        return photo

    async def publish(self, photo: Photo, generation: int) -> None:
        variants = [await self.variant(photo, generation, kind) for kind in ("thumb", "browse")]
        made = Made(generation, 30, 20, None, variants, {})
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute(
                "update photos set requested_generation = $2 where id = $1", photo.id, generation
            )
            await publish_photo(connection, photo.id, made, first=generation == 1)

    async def variant(self, photo: Photo, generation: int, kind: str) -> Variant:
        name = f"{kind}-{generation:016}.jpg"
        key = f"{ROOT}albums/{photo.album_id}/variants/{photo.id}/{generation}/{name}"
        stored = await self.place.storage.put(chunks_of(name.encode()), max_bytes=LIMIT, key=key)
        return Variant(kind, generation, key, f"{generation}-{name}", 3, 2, 5, stored.sha256, "image/jpeg")

    async def hour_later(self) -> None:
        await self.pool.execute("update object_trash set remove_at = remove_at - interval '61 minutes'")

    async def collect(self, **changes: Any) -> dict[str, int]:
        """One round; what it did, without what it did not do."""
        done = await self.collector(**changes).done_once()
        return {name: number for name, number in done.items() if number}

    async def files(self) -> list[str]:
        """What lies there, but for the collector's own mark."""
        return sorted(path for path in await self.place.everything() if "lingxi/marks/" not in path)

    async def orphan(self) -> str:
        """What a crash between the object and its row leaves."""
        return (await self.place.storage.put(chunks_of(b"orphan"), max_bytes=LIMIT)).key

    async def in_transaction(self, work: Any, *arguments: Any) -> Any:
        async with self.pool.acquire() as connection, connection.transaction():
            return await work(connection, *arguments)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Some tests name both; for the others the bucket is slow, and differs in nothing that the collector sees."""
    async with open_place(request, request.param, tmp_path / "objects") as opened:
        yield opened


@pytest.fixture
async def stage(pool: Pool, place: Place) -> Stage:
    workspace_id = uuid.uuid4()
    await pool.execute("insert into workspaces (id, name) values ($1, 'w')", workspace_id)
    async with pool.acquire() as connection, connection.transaction():
        album = await create_album(connection, workspace_id, "Wedding")
    return Stage(pool, place, workspace_id, album.id)


@pytest.mark.parametrize("verb", [delete_photo, recall_photo])
async def test_a_deleted_or_recalled_photo_has_no_file_left_after_an_hour(stage: Stage, verb: Any) -> None:
    kept = await stage.photo()
    gone = await stage.photo(generations=2)
    before = await stage.files()
    await stage.in_transaction(verb, stage.album_id, gone.id)
    await stage.variant(gone, 3, "thumb")  # an attempt that was late
    no_orphans = {"orphan_seconds": 3600.0}
    assert (await stage.collect(**no_orphans))["photos_cleared"] == 1
    assert len(await stage.files()) == len(before) + 1  # for an hour, whoever holds an address goes on
    await stage.hour_later()
    await stage.collect(**no_orphans)
    left = await stage.files()
    assert len(left) == 3
    assert await read(stage.place.storage, kept.storage_key)
    assert not any(str(gone.id) in path or gone.storage_key in path for path in left)
    assert await stage.collect(**no_orphans) == {}


async def test_a_deleted_album_has_no_file_left(stage: Stage) -> None:
    for _ in range(3):
        await stage.photo()
    await stage.in_transaction(delete_album, stage.workspace_id, stage.album_id)
    await stage.collect(orphan_seconds=3600.0)
    await stage.hour_later()
    await stage.collect(orphan_seconds=3600.0)
    assert await stage.files() == []


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
async def test_what_a_row_names_is_never_touched(stage: Stage) -> None:
    published = await stage.photo()
    hidden = await stage.photo()
    await stage.in_transaction(hide_photo, stage.album_id, hidden.id)
    waiting = await stage.photo(generations=0)
    async with (
        receive_object(stage.place.storage, chunks_of(b"object"), max_bytes=LIMIT) as received,
        stage.pool.acquire() as connection,
    ):
        await put_object(connection, stage.workspace_id, "x", received)
    stage.place.beside("archive/a.jpg", b"media")
    before = await stage.files()
    assert await stage.collect() == {}
    assert await stage.collect() == {}
    assert await stage.files() == before
    for photo in (published, hidden, waiting):
        assert await read(stage.place.storage, photo.storage_key)
    assert await read(stage.place.storage, "media:archive/a.jpg") == b"media"


@pytest.mark.parametrize("place", ["s3"], indirect=True)
async def test_what_others_put_into_our_bucket_is_not_ours(stage: Stage) -> None:
    """A content-addressed backup may look just like our keys."""
    assert isinstance(stage.place, BucketPlace)  # a folder is ours alone
    prefix = stage.place.prefix
    names = [f"{prefix}/objects/{uuid.uuid4().hex}", f"{prefix}/{ROOT}albums/a/variants/p/1/a.jpg"]
    for name in [*names, f"{prefix}/incoming/a1", f"{prefix}/lingxi/notes.txt"]:
        stage.place.beside(name, b"somebody's")
    assert await stage.collect() == {}
    assert len(await stage.files()) == 4


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
async def test_an_orphan_waits_in_the_trash_folder_and_is_removed_then(stage: Stage) -> None:
    key = await stage.orphan()
    assert await stage.collect(trash_seconds=7.0 * DAY_SECONDS) == {"orphans": 1}
    assert await read(stage.place.storage, f"trash/{key}") == b"orphan"
    with pytest.raises(ObjectMissing):
        await stage.place.storage.open(key)
    assert await stage.collect(trash_seconds=7.0 * DAY_SECONDS) == {}
    row = await stage.pool.fetchrow("select reason, remove_at - now() as rest from object_trash")
    assert row is not None
    assert row["reason"] == "orphan"
    assert abs(row["rest"].total_seconds() - 7 * DAY_SECONDS) < 600
    await stage.pool.execute("update object_trash set remove_at = now()")
    assert await stage.collect() == {"removed": 1}
    assert await stage.files() == []
    assert await stage.pool.fetchval("select count(*) from object_trash") == 0


@pytest.mark.parametrize("folder", ["incoming/u1", f"{ROOT}albums/a/variants/p/1/thumb.jpg"])
async def test_orphans_are_found_in_every_folder_of_ours(stage: Stage, folder: str) -> None:
    await stage.place.storage.put(chunks_of(b"x"), max_bytes=LIMIT, key=folder)
    assert await stage.collect() == {"orphans": 1}
    assert await stage.collect() == {"removed": 1}
    assert await stage.files() == []


@pytest.mark.parametrize("place", ["local"], indirect=True)
async def test_an_orphan_of_six_days_is_left_and_one_of_eight_is_not(stage: Stage) -> None:
    assert isinstance(
        stage.place, FolderPlace
    )  # a bucket's times cannot be set; the age is the port's, tried for both
    young, old = await stage.orphan(), await stage.orphan()
    for key, days in ((young, 6), (old, 8)):
        (path,) = stage.place.folder.rglob(key)
        os.utime(path, (path.stat().st_mtime - days * DAY_SECONDS,) * 2)
    week = {"orphan_seconds": 7.0 * DAY_SECONDS, "trash_seconds": 7.0 * DAY_SECONDS}
    assert await stage.collect(**week) == {"orphans": 1}
    assert await read(stage.place.storage, young) == b"orphan"
    assert await read(stage.place.storage, f"trash/{old}") == b"orphan"


async def test_a_new_orphan_may_still_get_its_row(stage: Stage) -> None:
    key = await stage.orphan()
    assert await stage.collect(orphan_seconds=3600.0) == {}
    assert await read(stage.place.storage, key) == b"orphan"


async def test_a_row_that_comes_before_the_move_keeps_the_object(stage: Stage, tmp_path_factory: Any) -> None:
    key = await stage.orphan()
    told = tmp_path_factory.mktemp("failpoints")
    failpoints.arm("collector.before_move=pause", told)
    try:
        round_ = asyncio.ensure_future(stage.collect())
        await wait_until((told / "collector.before_move.reached").exists)
        await _insert_object(stage, key)
        (told / "collector.before_move.release").touch()
        assert await round_ == {}
    finally:
        failpoints.disarm()
    assert await read(stage.place.storage, key) == b"orphan"
    assert await stage.collect() == {}
    assert await read(stage.place.storage, key) == b"orphan"


@pytest.mark.parametrize("place", ["local"], indirect=True)
async def test_an_object_that_is_put_again_before_the_move_is_new(
    stage: Stage, tmp_path_factory: Any
) -> None:
    """A late attempt writes the same variant; its row is still to come."""
    assert isinstance(stage.place, FolderPlace)  # a bucket's times cannot be set
    key = f"{ROOT}albums/a/variants/p/1/thumb.jpg"
    await stage.place.storage.put(chunks_of(b"first"), max_bytes=LIMIT, key=key)
    path = stage.place.folder / "named" / key
    os.utime(path, (path.stat().st_mtime - DAY_SECONDS,) * 2)
    told = tmp_path_factory.mktemp("failpoints")
    failpoints.arm("collector.before_move=pause", told)
    try:
        round_ = asyncio.ensure_future(stage.collect(orphan_seconds=3600.0))
        await wait_until((told / "collector.before_move.reached").exists)
        await stage.place.storage.put(chunks_of(b"again"), max_bytes=LIMIT, key=key)
        (told / "collector.before_move.release").touch()
        assert await round_ == {}
    finally:
        failpoints.disarm()
    assert await read(stage.place.storage, key) == b"again"


async def test_a_row_that_comes_while_it_lies_in_the_trash_brings_it_back(stage: Stage) -> None:
    key = await stage.orphan()
    assert await stage.collect() == {"orphans": 1}
    await _insert_object(stage, key)
    assert await stage.collect() == {"rescued": 1}
    assert await read(stage.place.storage, key) == b"orphan"
    assert await stage.collect() == {}


async def _insert_object(stage: Stage, key: str) -> None:
    await stage.pool.execute(
        sql("objects/insert"), stage.workspace_id, "late", key, 6, b"x" * 32, "application/octet-stream"
    )


async def test_after_a_crash_between_row_and_move_the_next_round_goes_on(stage: Stage) -> None:
    key = await stage.orphan()
    failpoints.arm("collector.before_move=error")
    try:
        with pytest.raises(failpoints.FailpointError):
            await stage.collect()
    finally:
        failpoints.disarm()
    assert await read(stage.place.storage, key) == b"orphan"
    assert await stage.collect(trash_seconds=60.0) == {"removed": 1, "orphans": 1}
    await stage.pool.execute("update object_trash set remove_at = now()")
    await stage.collect()
    await stage.collect()
    assert await stage.files() == []


async def test_after_a_crash_between_removal_and_commit_the_next_round_goes_on(stage: Stage) -> None:
    await stage.orphan()
    await stage.collect()
    failpoints.arm("collector.before_commit=error")
    try:
        with pytest.raises(failpoints.FailpointError):
            await stage.collect()
    finally:
        failpoints.disarm()
    assert await stage.files() == []
    assert await stage.collect() == {"removed": 1}
    assert await stage.collect() == {}


async def test_six_collectors_at_once_do_it_once(stage: Stage) -> None:
    keys = [await stage.orphan() for _ in range(8)]
    kept = await stage.photo()
    rounds = await asyncio.gather(*(stage.collect(trash_seconds=60.0, scan_seconds=60.0) for _ in range(6)))
    assert sum(one.get("orphans", 0) for one in rounds) == len(keys)
    await stage.pool.execute("update object_trash set remove_at = now()")
    rounds = await asyncio.gather(*(stage.collect(scan_seconds=60.0) for _ in range(6)))
    assert sum(one.get("removed", 0) for one in rounds) == len(keys)
    assert await read(stage.place.storage, kept.storage_key)


async def test_a_restored_database_only_reports(stage: Stage) -> None:
    """A backup is taken; then photos come; then the backup is restored and knows nothing of them."""
    await stage.collect()
    backup = await stage.pool.fetch("select key, value from deployment")
    key = await stage.orphan()  # its row was lost with the database
    await stage.collect(orphan_seconds=3600.0)
    for row in backup:
        await stage.pool.execute("update deployment set value = $2 where key = $1", row["key"], row["value"])
    for _ in range(3):
        assert await stage.collect() == {"reported": 1}
    assert await read(stage.place.storage, key) == b"orphan"
    await StorageMarks(stage.pool, stage.place.storage).accept()
    assert await stage.collect() == {"orphans": 1}


async def test_another_database_on_the_same_storage_only_reports(stage: Stage) -> None:
    key = await stage.orphan()
    await stage.collect(orphan_seconds=3600.0)
    await stage.pool.execute("delete from deployment")
    assert await stage.collect() == {"reported": 1}
    assert await read(stage.place.storage, key) == b"orphan"


async def test_a_storage_that_was_restored_is_no_restored_database(stage: Stage) -> None:
    for _ in range(3):
        await stage.collect()
    (mark,) = [path for path in await stage.place.everything() if "lingxi/marks/" in path]
    assert mark.endswith("3")
    marks = StorageMarks(stage.pool, stage.place.storage)
    await stage.pool.execute("update deployment set value = '9' where key = 'storage_epoch'")
    assert not await marks.restored()


async def test_signed_uploads_that_were_never_confirmed_are_removed(stage: Stage) -> None:
    key = f"incoming/{uuid.uuid4().hex}"
    await stage.place.storage.put(chunks_of(b"x"), max_bytes=LIMIT, key=key)
    query = """insert into direct_uploads (id, workspace_id, name, size_bytes, storage_key, expires_at)
               values (gen_random_uuid(), $1, 'x', 1, $2, now() + $3::int * interval '1 hour')"""
    await stage.pool.execute(query, stage.workspace_id, key, -23)
    assert await stage.collect() == {}
    await stage.pool.execute("update direct_uploads set expires_at = now() - interval '25 hours'")
    assert await stage.collect() == {"uploads_forgotten": 1, "removed": 1}
    assert await stage.files() == []


async def test_storage_that_is_away_delays_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.orphan()
    await stage.collect()

    async def away(key: str) -> None:
        raise StorageUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(stage.place.storage, "delete", away)
        with pytest.raises(StorageUnavailable):
            await stage.collect()
    assert await stage.pool.fetchval("select count(*) from object_trash") == 1
    assert await stage.collect() == {"removed": 1}


async def test_every_column_of_storage_keys_is_asked_before_anything_is_removed(pool: Pool) -> None:
    """A table with a new one has to be added to the statement, or its objects would be taken for orphans."""
    columns = await pool.fetch(
        """select table_name, column_name from information_schema.columns
            where table_schema = 'public' and column_name like '%storage_key%' and table_name <> 'object_trash'"""
    )
    statement = sql("objects/live_keys")
    assert columns
    for table, column in columns:
        assert f"select {column} from {table} " in statement, f"{table}.{column} is not looked up"
