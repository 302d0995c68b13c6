"""A worker that transcodes is killed at random points: each item ends once, its object is whole or absent, no scratch is left."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lingxi.services.put_object import put_object, receive_object
from lingxi.storage import Storage, open_storage
from tests.fault.conftest import StartWorker
from tests.fault.test_worker_processes import children_of, ends, gone
from tests.support.clips import Sound, clip, seen
from tests.support.waiting import wait_until
from tests.support.work import Work

SOURCE = clip(seconds=2.0, size=(320, 240), sound=Sound())


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    """Where `start_worker`'s processes look for objects."""
    opened = open_storage((tmp_path / "data" / "objects").as_uri())
    yield opened
    await opened.close()


async def _put(work: Work, storage: Storage, name: str, data: bytes) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield data

    async with (
        receive_object(storage, chunks(), max_bytes=1 << 30) as received,
        work.pool.acquire() as connection,
        connection.transaction(),
    ):
        await put_object(connection, work.workspace_id, name, received)


SLOW = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("video:transcode", 3),
        pytest.param("video:transcode", 10, marks=SLOW),
        pytest.param("video:poster", 10, marks=SLOW),
    ],
)
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, storage: Storage, tmp_path: Path, kind: str, kills: int
) -> None:
    await _put(work, storage, "in.mp4", SOURCE)
    key = "output" if kind == "video:transcode" else "preview"
    inputs: list[dict[str, Any]] = [{"object": "in.mp4", key: f"out-{number}.mp4"} for number in range(2)]
    if kind == "video:poster":
        inputs = [{**one, "poster": f"p-{number}.jpg"} for number, one in enumerate(inputs)]
    task_id = await work.submit(*inputs, type=kind, max_attempts=2 * kills + 3)
    worker = start_worker(QUEUE="video", LEASE_SECONDS="2")
    chance, killed = random.Random(kills), 0
    while killed < kills and not await _over(work, task_id):
        victims = await _working(work, worker.pid, task_id)
        if victims is None:
            break
        await asyncio.sleep(chance.uniform(0.0, 0.7))  # the random point
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        await wait_until(lambda pids=victims: all(gone(pid) for pid in pids), 10)
    assert killed, "not one was hit while it worked"
    await work.ended(task_id, 120)
    assert await work.states(task_id) == ["succeeded", "succeeded"]
    for item in inputs:
        await _assert_whole(work, storage, item[key])
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0
    attempts = tmp_path / "data" / "scratch" / "attempts"
    assert [path for path in attempts.rglob("*") if path.is_file() and not path.name.startswith(".")] == []
    await wait_until(lambda: not _decoders(tmp_path), 20)


async def _over(work: Work, task_id: UUID) -> bool:
    return (await work.task(task_id))["finished_at"] is not None


async def _working(work: Work, supervisor: int, task_id: UUID) -> list[int] | None:
    """The worker processes, once an item runs; None when all has ended."""

    async def fact() -> tuple[list[int] | None] | None:
        if await _over(work, task_id):
            return (None,)
        at_work = {item["worker"].split(":")[1] for item in await work.items(task_id) if item["worker"]}
        workers = [pid for pid in children_of(supervisor) if str(pid) in at_work and not gone(pid)]
        return (workers,) if workers else None

    found: tuple[list[int] | None] = await wait_until(fact, 60)
    return found[0]


async def _assert_whole(work: Work, storage: Storage, name: str) -> None:
    """One row, whose bytes are what it says and play to their end."""
    (row,) = await work.pool.fetch("select * from objects where name = $1", name)
    reader = await storage.open(row["storage_key"])
    data = b"".join([chunk async for chunk in reader])
    await reader.close()
    assert hashlib.sha256(data).digest() == row["sha256"]
    assert len(seen(data).times) == 50


def _decoders(folder: Path) -> list[str]:
    """Processes that decode videos with their scratch in `folder`."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if b"lingxi.video.child" in command and f"TMPDIR={folder}".encode() in environment:
            found.append(process.name)
    return found
