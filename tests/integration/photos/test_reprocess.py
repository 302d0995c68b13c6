"""Later generations: asked for by number, published in order, and never over a newer one."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast
from uuid import uuid4

import pytest

from lingxi.domain.errors import Conflict, NotFound
from lingxi.names import PHOTO_QUEUE
from lingxi.processors.publish import process_photo
from lingxi.services.request_reprocess import request_reprocess
from lingxi.services.steer_photo import recall_photo
from tests.support.photos import VARIANTS, Photos
from tests.support.pictures import picture
from tests.support.waiting import wait_until


async def published(photos: Photos, *pictures: bytes) -> list[Any]:
    ids = [await photos.new_photo(one) for one in pictures]
    for photo_id in ids:
        assert await process_photo(photo_id, photos.deps) == "published"
    return ids


async def reprocess(photos: Photos) -> list[Any]:
    async with photos.work.pool.acquire() as connection, connection.transaction():
        return await request_reprocess(connection, photos.work.workspace_id, photos.album_id)


async def test_an_album_is_reprocessed_by_a_task_in_bulk_priority(photos: Photos) -> None:
    first, second = await published(photos, picture("jpeg", 500, 300), picture("png", 300, 200))
    waiting = (await photos.upload(b"not ready")).photo.id
    (task,) = await reprocess(photos)
    row = await photos.work.task(task.id)
    assert (row["type"], row["priority"], row["total_items"]) == (PHOTO_QUEUE, 2, 2)
    items = await photos.work.items(task.id)
    assert [json.loads(item["input"]) for item in items] == [
        {"photoId": str(photo_id), "generation": 2} for photo_id in (first, second)
    ]
    assert (await photos.row(first))["published_generation"] == 1, "it stays on its old pictures"
    async with photos.worker():
        assert (await photos.work.ended(task.id))["status"] == "succeeded"
    for photo_id in (first, second):
        photo = await photos.row(photo_id)
        assert (photo["published_generation"], photo["entity_version"]) == (2, 2)
        assert [(v["kind"], v["generation"]) for v in await photos.variants(photo_id)] == [
            (kind, 2) for kind in VARIANTS
        ]
        assert await photos.events(photo_id) == ["photo.published", "photo.updated"]
        old = await photos.work.pool.fetch("select storage_key from object_trash where reason = 'replaced'")
        assert all("/1/" in row["storage_key"] for row in old) and len(old) == 4
    assert (await photos.row(waiting))["requested_generation"] == 1


async def test_a_stale_attempts_write_after_a_newer_generation_changes_nothing(album: Photos) -> None:
    (photo_id,) = await published(album, picture("jpeg", 400, 300))
    await reprocess(album)
    await reprocess(album)
    assert await process_photo(photo_id, album.deps, generation=3) == "published"
    before = dict(await album.row(photo_id)), [dict(one) for one in await album.variants(photo_id)]
    for stale in (2, 3, None):
        assert await process_photo(photo_id, album.deps, generation=stale) == "already"
    assert (dict(await album.row(photo_id)), [dict(one) for one in await album.variants(photo_id)]) == before
    assert await album.events(photo_id) == ["photo.published", "photo.updated"]


async def test_a_stale_attempt_that_had_made_its_pictures_before_a_newer_one_won(
    album: Photos, arm: Any
) -> None:
    """Both look before either writes: only the transaction can decide."""
    (photo_id,) = await published(album, picture("jpeg", 400, 300))
    await reprocess(album)
    await reprocess(album)
    folder = arm("photo.after_store=pause@1")
    stale = asyncio.create_task(process_photo(photo_id, album.deps, generation=2))
    await wait_until(lambda: (folder / "photo.after_store.reached").exists())
    assert await process_photo(photo_id, album.deps, generation=3) == "published"
    before = dict(await album.row(photo_id)), [dict(one) for one in await album.variants(photo_id)]
    (folder / "photo.after_store.release").touch()
    assert await stale == "already"
    assert (dict(await album.row(photo_id)), [dict(one) for one in await album.variants(photo_id)]) == before
    assert await album.work.pool.fetchval("select max(last_seq) from albums") == before[0]["last_seq"]


async def test_a_failed_reprocess_leaves_what_is_published(photos: Photos) -> None:
    (photo_id,) = await published(photos, picture("jpeg", 400, 300))
    before = dict(await photos.row(photo_id))
    (task,) = await reprocess(photos)
    key = before["storage_key"]
    await photos.storage.delete(key)
    async with photos.worker():
        assert (await photos.work.ended(task.id))["status"] == "failed"
    (item,) = await photos.work.items(task.id)
    assert item["error_code"] == "object_not_found"
    after = dict(await photos.row(photo_id))
    assert after == {**before, "requested_generation": 2}
    assert [one["generation"] for one in await photos.variants(photo_id)] == [1, 1]


async def test_recalled_photos_are_not_made_again(photos: Photos) -> None:
    first, second = await published(photos, picture("jpeg", 400, 300), picture("png", 300, 200))
    (task,) = await reprocess(photos)
    async with photos.work.pool.acquire() as connection, connection.transaction():
        await recall_photo(connection, photos.album_id, first)
    async with photos.worker():
        await photos.work.ended(task.id)
    results = [json.loads(item["result"])["outcome"] for item in await photos.work.items(task.id)]
    assert results == ["skipped", "published"]
    assert await photos.variants(first) == []
    (task,) = await reprocess(photos)
    assert [item["ref"] for item in await photos.work.items(task.id)] == [str(second)]


async def test_photos_of_others_and_generations_that_nobody_asked_for_are_refused(photos: Photos) -> None:
    (photo_id,) = await published(photos, picture("jpeg", 400, 300))
    other = (await photos.upload(b"of another workspace")).photo.id
    await photos.work.pool.execute("update photos set workspace_id = $2 where id = $1", other, uuid4())
    given = [
        {"photoId": str(uuid4())},
        {"photoId": str(other)},
        {"photoId": str(photo_id), "generation": 2},
        {"photoId": str(photo_id)},
    ]
    task_id = await photos.work.submit(*given, type=PHOTO_QUEUE)
    async with photos.worker():
        await photos.work.ended(task_id)
    items = await photos.work.items(task_id)
    assert [item["error_code"] for item in items] == [
        *["photo_not_found"] * 2,
        "generation_not_requested",
        None,
    ]
    assert json.loads(items[3]["result"]) == {"photoId": str(photo_id), "outcome": "already"}


async def test_new_uploads_go_before_a_reprocess(photos: Photos) -> None:
    await published(photos, *(picture("jpeg", 200 + n, 100) for n in range(8)))
    (task,) = await reprocess(photos)

    async def waits() -> bool:
        return (await photos.work.queue_lengths(PHOTO_QUEUE))["prioritized"] == 8

    await wait_until(cast(Any, waits))
    new = await photos.new_photo(picture("jpeg", 333, 222))

    async def rings() -> bool:  # with those of the photos that were published without their jobs
        return (await photos.work.queue_lengths(PHOTO_QUEUE))["wait"] == 9

    await wait_until(cast(Any, rings))
    async with photos.queue() as queue:
        taken = await queue.take(10)
        assert [delivery.name for delivery in taken] == ["photo"] * 9 + ["item"]
        assert taken[8].job_id == f"process-{new}"
        await queue.give_back(taken)
    async with photos.worker():
        await photos.until_job(new, "done")
        await photos.work.ended(task.id)


async def test_nothing_to_reprocess_is_said(album: Photos) -> None:
    with pytest.raises(Conflict):
        await reprocess(album)
    async with album.work.pool.acquire() as connection:
        with pytest.raises(NotFound):
            await request_reprocess(connection, uuid4(), album.album_id)
