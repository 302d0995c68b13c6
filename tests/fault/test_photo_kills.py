"""A worker is killed at every step of a photo's way: the sweep brings the photo back, and it is published once."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from lingxi.names import FAILPOINTS
from lingxi.services.request_reprocess import request_reprocess
from tests.fault.conftest import StartWorker
from tests.fault.test_worker_processes import ends, started
from tests.support.killing import assert_stops_clean, lose_attempts
from tests.support.photos import Photos
from tests.support.pictures import picture
from tests.support.waiting import wait_until
from tests.support.work import Work

slow = pytest.mark.slow

STEPS = [name for name in FAILPOINTS if name.startswith("photo.")]
# Just before and just after the effect; the others wait for the slow tier.
QUICK_STEPS = {"photo.before_commit", "photo.after_commit", "photo.between_variants"}
AFTER_THE_COMMIT = {"photo.after_commit", "photo.before_done", "photo.after_done"}


@pytest.fixture
async def photos(work: Work, tmp_path: Path) -> AsyncIterator[Photos]:
    """An album whose objects lie where `start_worker`'s processes look for them."""
    async with Photos.open(work, tmp_path / "data") as made:
        yield made


@pytest.fixture
def start(start_worker: StartWorker) -> Callable[..., Any]:
    """`start(…)`: a supervisor and a worker of the group photo; locks of dead workers end soon."""

    def run(**settings: str) -> Any:
        return start_worker(
            **{"QUEUE": "photo", "LEASE_SECONDS": "1", "LEASE_RENEW_SECONDS": "0.3", **settings}
        )

    return run


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "step", [step if step in QUICK_STEPS else pytest.param(step, marks=slow) for step in STEPS]
)
async def test_killed_at_a_step_and_found_by_the_sweep(
    photos: Photos, start: Callable[..., Any], tmp_path: Path, step: str
) -> None:
    """The whole group dies, the parent too, so nobody but the sweep can know."""
    photo_id = await photos.new_photo()
    worker = start(LINGXI_FAILPOINTS=f"{step}=kill")
    await wait_until(lambda: (tmp_path / f"{step}.reached").exists(), 40)
    worker.kill_group()
    killed = await photos.row(photo_id)
    assert (killed["entity_version"] == 1) == (step in AFTER_THE_COMMIT)
    if step == "photo.between_variants":
        stored = list((photos.folder / "objects").rglob("variants/*/1/*.jpg"))
        assert len(stored) == 1, "one of the two is there, and nobody was told of the photo"
    await photos.age_leases()
    start()
    job = await photos.until_job(photo_id, "done", 40)
    await photos.assert_published_once(photo_id)
    assert job["attempt"] <= 3
    await photos.until_queue_empty()
    assert (await photos.row(photo_id))["last_seq"] == await photos.work.pool.fetchval(
        "select last_seq from albums"
    )


@slow
@pytest.mark.timeout(120)
async def test_the_parent_puts_back_what_a_killed_worker_had(
    photos: Photos, start: Callable[..., Any]
) -> None:
    """The lease would be stale after five minutes, and the sweep alone would wait for that."""
    photo_id = await photos.new_photo()
    worker = start(LINGXI_FAILPOINTS="photo.after_encode=kill@1")
    await wait_until(lambda: worker.events("leases_ended"), 40)
    assert worker.events("leases_ended")[0]["count"] == 1
    await photos.until_job(photo_id, "failed", 60)
    job = await photos.job(photo_id)
    assert job["last_error"] == "worker_lost", "each new process is killed by it again: it ends"
    row = await photos.row(photo_id)
    assert (row["processing_state"], row["error_code"]) == ("processing_failed", "worker_lost")


@slow
@pytest.mark.timeout(120)
async def test_sigterm_in_mid_decode_gives_the_photo_back(photos: Photos, start: Callable[..., Any]) -> None:
    """A real decoder, of a photo that takes it long enough; nobody is left behind."""
    photo_id = await photos.new_photo(picture("png", 6000, 5000))
    worker = start(GRACE_SECONDS="0")
    await started(worker)
    await photos.until_job(photo_id, "active")
    folder = photos.folder / "scratch"

    def decoding() -> bool:
        return any(folder.rglob("photo-*/browse.jpg"))

    await wait_until(decoding, 20)
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0
    job = await photos.job(photo_id)
    assert (job["state"], job["attempt"]) == ("pending", 0)
    assert list(folder.rglob("photo-*")) == []
    start()
    await photos.until_job(photo_id, "done", 40)
    await photos.assert_published_once(photo_id)


@slow
@pytest.mark.timeout(120)
async def test_two_processes_and_many_photos_publish_each_once(
    photos: Photos, start_worker: StartWorker
) -> None:
    ids = [await photos.new_photo(picture("jpeg", 200 + n, 150)) for n in range(12)]
    start_worker(2, QUEUE="photo")

    async def all_done() -> bool:
        left = await photos.work.pool.fetchval("select count(*) from photo_jobs where state <> 'done'")
        return bool(left == 0)

    await wait_until(cast(Any, all_done), 60)
    for photo_id in ids:
        await photos.assert_published_once(photo_id)
    assert {(await photos.job(one))["attempt"] for one in ids} == {1}
    numbers = sorted([(await photos.row(one))["last_seq"] for one in ids])
    assert numbers == list(range(14, 26)), "dense, after one for the album and twelve for the uploads"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [pytest.param(10, marks=slow)])
async def test_a_reprocess_that_is_killed_at_random_points(
    photos: Photos, start: Callable[..., Any], tmp_path: Path, kills: int
) -> None:
    """Each photo ends with the last generation that was asked for, whole, and one event a generation."""
    ids = [await photos.new_photo(picture("png", 1600, 1200 + number)) for number in range(2)]
    worker = start()
    for photo_id in ids:
        await photos.until_job(photo_id, "done", 60)
    pool = photos.work.pool

    async def submit(number: int) -> UUID:
        async with pool.acquire() as connection, connection.transaction():
            (task,) = await request_reprocess(connection, photos.work.workspace_id, photos.album_id)
            await connection.execute(
                "update media_tasks set max_attempts = $2 where id = $1", task.id, 20 * kills
            )
        return task.id

    tasks = await lose_attempts(photos.work, worker, submit, kills, 0.6)
    for photo_id in ids:
        row = await photos.row(photo_id)
        assert row["published_generation"] == row["requested_generation"] == 1 + len(tasks)
        assert row["entity_version"] == 1 + len(tasks)
        assert await photos.events(photo_id) == ["photo.published"] + ["photo.updated"] * len(tasks)
        for variant in await photos.variants(photo_id):
            reader = await photos.storage.open(variant["storage_key"])
            data = b"".join([chunk async for chunk in reader])
            assert hashlib.sha256(data).digest() == variant["sha256"]
    await assert_stops_clean(worker, photos.folder)
