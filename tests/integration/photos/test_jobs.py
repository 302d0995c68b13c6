"""The way of an upload: its job, what a worker makes of it, and what it leaves in PostgreSQL and Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from lingxi import names
from lingxi.broker.queue import Job
from lingxi.domain.wire import time_to_wire
from lingxi.services.steer_photo import hide_photo, recall_photo, show_photo
from tests.support.photos import PHOTO, Photos
from tests.support.pictures import cut, picture
from tests.support.waiting import wait_until

Arm = Callable[[str], Path]


async def test_an_upload_is_published_once_and_leaves_no_job(photos: Photos) -> None:
    photo_id = await photos.new_photo()
    async with photos.worker() as worker:
        await photos.until_job(photo_id, "done")
        await photos.until_queue_empty()
        counts = worker.consumers[0].photos.counts  # type: ignore[union-attr]
    await photos.assert_published_once(photo_id)
    assert dict(counts) == {"published": 1}
    row = await photos.row(photo_id)
    times = json.loads(row["timeline"])
    order = "received stored enqueued started decoded encoded variantsStored committed".split()  # noqa: SIM905
    assert set(times) == set(order)
    assert [datetime.fromisoformat(times[stage]) for stage in order] == sorted(
        datetime.fromisoformat(time) for time in times.values()
    )
    event = await photos.work.pool.fetchval(
        "select payload from outbox_events where type = 'photo.published'"
    )
    made = {"browse": (600, 400), "thumb": (400, 267)}
    sizes = {row["kind"]: row["size_bytes"] for row in await photos.variants(photo_id)}
    payload = json.loads(event)
    payload["variants"].sort(key=lambda variant: variant["kind"])
    assert payload == {
        "v": 1, "photoId": str(photo_id), "albumId": str(photos.album_id), "entityVersion": 1, "generation": 1,
        "publishedAt": time_to_wire(row["published_at"]), "width": 600, "height": 400,
        "variants": [
            {"kind": kind, "width": made[kind][0], "height": made[kind][1], "bytes": sizes[kind], "contentType": "image/jpeg"}
            for kind in ("browse", "thumb")
        ],
    }  # fmt: skip


async def test_what_viewers_see_first_is_hinted_to_them_at_once(photos: Photos, redis_url: str) -> None:
    from lingxi.broker.hints import HintListener

    heard: list[bytes] = []
    connected = asyncio.Event()
    listener = HintListener(
        redis_url, [names.HINT_ALBUMS], lambda channel, payload: heard.append(payload), connected.set
    )
    listener.start()
    await connected.wait()
    photo_id = await photos.new_photo()
    async with photos.worker():
        await photos.until_job(photo_id, "done")
        await wait_until(lambda: len(heard) >= 2)  # by the worker after its commit, and by the event
    await listener.stop()
    assert set(heard) == {str(photos.album_id).encode()}


async def test_two_workers_race_on_one_photo(photos: Photos, arm: Arm) -> None:
    """Both have made the variants when one of them commits."""
    from lingxi.processors.publish import process_photo

    photo_id = await photos.new_photo()
    folder = arm("photo.after_store=pause")
    racing = [asyncio.create_task(process_photo(photo_id, photos.deps)) for _ in range(2)]
    opened = 2
    await wait_until(lambda: photos.storage.opened >= opened)
    await wait_until(lambda: (folder / "photo.after_store.reached").exists())
    (folder / "photo.after_store.release").touch()
    assert sorted(await asyncio.gather(*racing)) == ["already", "published"]
    async with photos.worker():
        await photos.until_job(photo_id, "done")
    await photos.assert_published_once(photo_id)


async def test_a_job_of_a_photo_under_a_live_lease_is_dropped(photos: Photos, arm: Arm) -> None:
    photo_id = await photos.new_photo()
    folder = arm("photo.after_fetch=pause@1")
    async with photos.worker(), photos.worker() as other:
        await wait_until(lambda: (folder / "photo.after_fetch.reached").exists())
        bell = Job(f"again-{photo_id}", json.dumps(
            {"v": 1, "photoId": str(photo_id), "albumId": str(photos.album_id)}
        ).encode())  # fmt: skip
        async with photos.queue() as queue:
            await queue.add_many([bell], priority=0, timestamp_ms=1)

            async def gone() -> bool:
                return not (await queue.exist([bell.id]))[0]

            await wait_until(gone)
        assert (await photos.job(photo_id))["attempt"] == 1
        (folder / "photo.after_fetch.release").touch()
        await photos.until_job(photo_id, "done")
        assert other is not None
    await photos.assert_published_once(photo_id)


async def test_recalled_while_it_is_processed_stays_recalled(photos: Photos, arm: Arm) -> None:
    photo_id = await photos.new_photo()
    folder = arm("photo.after_store=pause")
    async with photos.worker() as worker:
        await wait_until(lambda: (folder / "photo.after_store.reached").exists())
        async with photos.work.pool.acquire() as connection, connection.transaction():
            await recall_photo(connection, photos.album_id, photo_id)
        (folder / "photo.after_store.release").touch()
        await photos.until_job(photo_id, "done")
        assert dict(worker.consumers[0].photos.counts) == {"skipped": 1}  # type: ignore[union-attr]
    row = await photos.row(photo_id)
    assert (row["processing_state"], row["visibility"]) == ("uploaded", "recalled")
    assert await photos.variants(photo_id) == []
    assert await photos.events(photo_id) == ["photo.removed"]


async def test_hidden_before_it_is_ready_has_no_event_until_it_is_shown(photos: Photos) -> None:
    photo_id = await photos.new_photo()
    async with photos.work.pool.acquire() as connection, connection.transaction():
        await hide_photo(connection, photos.album_id, photo_id)
    async with photos.worker():
        await photos.until_job(photo_id, "done")
    row = await photos.row(photo_id)
    assert (row["processing_state"], row["visibility"], row["published_at"]) == ("ready", "hidden", None)
    assert len(await photos.variants(photo_id)) == 2
    assert await photos.events(photo_id) == []
    async with photos.work.pool.acquire() as connection, connection.transaction():
        shown = await show_photo(connection, photos.album_id, photo_id)
    assert (shown.visibility, shown.published_at is not None) == ("published", True)
    assert await photos.events(photo_id) == ["photo.published"]


async def test_the_same_bytes_ten_times_at_once_are_one_photo(photos: Photos) -> None:
    added = await asyncio.gather(*(photos.upload(name=f"{n}.jpg") for n in range(10)))
    assert len({one.photo.id for one in added}) == 1
    assert [one.created for one in added].count(True) == 1
    photo_id = added[0].photo.id
    async with photos.worker():
        await photos.until_job(photo_id, "done")
    await photos.assert_published_once(photo_id)
    assert await photos.work.pool.fetchval("select last_seq from albums") == 3  # created, uploaded, published
    uploads = await photos.work.pool.fetchval(
        "select count(*) from outbox_events where type = 'photo.uploaded'"
    )
    assert uploads == 1
    kept = [path for path in (photos.folder / "objects").rglob("*") if path.is_file()]
    assert len(kept) == 3, "one original and two variants"


async def test_a_bad_photo_fails_at_once_and_hurts_no_other(photos: Photos) -> None:
    """And it is counted by its code, as the failures of items are."""
    bad, good = await photos.new_photo(cut(PHOTO)), await photos.new_photo(picture("jpeg", 500, 400))
    counted = []
    async with photos.worker() as worker:
        worker._tallies.count = lambda *name, by=1: counted.append(name)  # type: ignore[method-assign]
        job = await photos.until_job(bad, "failed")
        await photos.until_job(good, "done")
        await photos.until_queue_empty()
    assert (job["attempt"], job["last_error"]) == (1, "truncated_image")
    failures = [labels for name, *labels in counted if name == "lingxi_item_failures_total"]
    assert failures == [["photo:process", "truncated_image"]]
    row = await photos.row(bad)
    assert (row["processing_state"], row["error_code"]) == ("processing_failed", "truncated_image")
    assert (row["visibility"], row["published_at"], row["entity_version"]) == ("unpublished", None, 0)
    assert await photos.events(bad) == []
    await photos.assert_published_once(good)


async def test_a_photo_that_failed_is_processed_anew_when_it_is_uploaded_again(photos: Photos) -> None:
    photos.storage.away = False
    photo_id = await photos.new_photo()
    async with photos.worker(photo_backoff_seconds=0.05):
        photos.storage.away = True
        await photos.until_job(photo_id, "failed")
        photos.storage.away = False
        again = await photos.upload()
        assert (again.created, again.photo.id) == (False, photo_id)
        assert again.photo.processing_state == "uploaded"
        job = await photos.until_job(photo_id, "done")
    assert job["attempt"] == 1
    await photos.assert_published_once(photo_id)


async def test_a_job_that_names_no_photo_is_foreign_and_a_newer_one_waits(photos: Photos) -> None:
    nobody = {"v": 1, "photoId": str(uuid4()), "albumId": str(uuid4())}
    async with photos.queue() as queue:
        await queue.add_many(
            [
                Job("process-nobody", json.dumps(nobody).encode()),
                Job("process-newer", json.dumps({**nobody, "v": 2}).encode()),
            ],
            priority=0,
            timestamp_ms=1,
        )
        async with photos.worker():
            await wait_until(lambda: _failed(photos))
        assert await queue.exist(["process-newer"]) == [True]


async def _failed(photos: Photos) -> bool:
    return (await photos.queue_counts())[3] == 1
