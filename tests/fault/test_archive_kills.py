"""A worker that archives is killed at random points: each item ends once, its object is whole or absent, nothing else is left."""

from __future__ import annotations

import hashlib
import io
import random
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from lingxi.processors.archive_check import check_archive
from lingxi.storage import Storage, open_storage
from tests.fault.conftest import StartWorker
from tests.support.killing import assert_stops_clean, lose_attempts, put_named
from tests.support.work import Work

FILES = {f"shoot/{number}.bin": random.Random(number).randbytes(9 << 20) for number in range(4)}


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    """Where `start_worker`'s processes look for objects."""
    opened = open_storage((tmp_path / "data" / "objects").as_uri())
    yield opened
    await opened.close()


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, storage: Storage, tmp_path: Path, kills: int
) -> None:
    for name, data in FILES.items():
        await put_named(work, storage, name, data)
    names: list[str] = []

    async def submit(number: int) -> UUID:
        into = [f"out-{number}-{part}.zip" for part in range(2)]
        names.extend(into)
        inputs = [{"objects": list(FILES), "into": name} for name in into]
        return await work.submit(*inputs, type="export:archive", max_attempts=20 * kills)

    worker = start_worker(QUEUE="delivery", LEASE_SECONDS="2")
    await lose_attempts(work, worker, submit, kills, 0.2)
    rows = await work.pool.fetch("select * from objects where name like 'out-%' order by name")
    assert [row["name"] for row in rows] == sorted(names)
    for row in rows:
        await _assert_whole(storage, row["storage_key"], row["sha256"])
    await assert_stops_clean(worker, tmp_path / "data")


async def _assert_whole(storage: Storage, key: str, sha256: bytes) -> None:
    """The bytes are what the row says, and an archive that others open and that proves itself."""
    reader = await storage.open(key)
    data = b"".join([chunk async for chunk in reader])
    await reader.close()
    assert hashlib.sha256(data).digest() == sha256
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {name: archive.read(name) for name in FILES} == FILES
    assert check_archive(io.BytesIO(data), None).problems == []
