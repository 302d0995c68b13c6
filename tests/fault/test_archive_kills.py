"""A worker that archives is killed at random points: each item ends once, its object is whole or absent, nothing else is left."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import random
import signal
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lingxi.processors.archive_check import check_archive
from lingxi.services.put_object import put_object, receive_object
from lingxi.storage import Storage, open_storage
from tests.fault.conftest import StartWorker
from tests.fault.test_video_kills import _over as over
from tests.fault.test_video_kills import _working as working
from tests.fault.test_worker_processes import ends, gone
from tests.support.waiting import wait_until
from tests.support.work import Work

FILES = {f"shoot/{number}.bin": random.Random(number).randbytes(9 << 20) for number in range(4)}


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    """Where `start_worker`'s processes look for objects."""
    opened = open_storage((tmp_path / "data" / "objects").as_uri())
    yield opened
    await opened.close()


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(400)])])
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, storage: Storage, tmp_path: Path, kills: int
) -> None:
    for name, data in FILES.items():
        await _put(work, storage, name, data)
    names = [f"out-{number}.zip" for number in range(2)]
    inputs = [{"objects": list(FILES), "into": name} for name in names]
    task_id = await work.submit(*inputs, type="export:archive", max_attempts=2 * kills + 3)
    worker = start_worker(QUEUE="delivery", LEASE_SECONDS="2")
    chance, killed = random.Random(kills), 0
    while killed < kills and not await over(work, task_id):
        victims = await working(work, worker.pid, task_id)
        if victims is None:
            break
        await asyncio.sleep(chance.uniform(0.0, 0.2))  # the random point
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        await wait_until(lambda pids=victims: all(gone(pid) for pid in pids), 10)
    assert killed, "not one was hit while it worked"
    await work.ended(task_id, 120)
    assert await work.states(task_id) == ["succeeded", "succeeded"]
    rows = await work.pool.fetch("select * from objects where name = any($1) order by name", names)
    assert [row["name"] for row in rows] == names
    for row in rows:
        await _assert_whole(storage, row["storage_key"], row["sha256"])
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0
    attempts = tmp_path / "data" / "scratch" / "attempts"
    assert [path for path in attempts.rglob("*") if path.is_file() and not path.name.startswith(".")] == []


async def _put(work: Work, storage: Storage, name: str, data: bytes) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield data

    async with (
        receive_object(storage, chunks(), max_bytes=1 << 30) as received,
        work.pool.acquire() as connection,
        connection.transaction(),
    ):
        await put_object(connection, work.workspace_id, name, received)


async def _assert_whole(storage: Storage, key: str, sha256: bytes) -> None:
    """The bytes are what the row says, and an archive that others open and that proves itself."""
    reader = await storage.open(key)
    data = b"".join([chunk async for chunk in reader])
    await reader.close()
    assert hashlib.sha256(data).digest() == sha256
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {name: archive.read(name) for name in FILES} == FILES
    assert check_archive(io.BytesIO(data), None).problems == []
