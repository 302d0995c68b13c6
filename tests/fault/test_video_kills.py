"""A worker that transcodes is killed at random points: each item ends once, its object is whole or absent, no scratch is left."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lingxi.storage import Storage, open_storage
from tests.fault.conftest import StartWorker
from tests.support.clips import Sound, clip, seen
from tests.support.killing import assert_stops_clean, lose_attempts, put_named
from tests.support.waiting import wait_until
from tests.support.work import Work

SOURCE = clip(seconds=2.0, size=(320, 240), sound=Sound())
SLOW = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    """Where `start_worker`'s processes look for objects."""
    opened = open_storage((tmp_path / "data" / "objects").as_uri())
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("video:transcode", 1),
        pytest.param("video:transcode", 10, marks=SLOW),
        pytest.param("video:poster", 10, marks=SLOW),
    ],
)
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, storage: Storage, tmp_path: Path, kind: str, kills: int
) -> None:
    await put_named(work, storage, "in.mp4", SOURCE)
    key = "output" if kind == "video:transcode" else "preview"
    films: list[str] = []

    async def submit(number: int) -> UUID:
        inputs: list[dict[str, Any]] = []
        for part in range(2):
            films.append(f"out-{number}-{part}.mp4")
            poster = {"poster": f"p-{number}-{part}.jpg"} if kind == "video:poster" else {}
            inputs.append({"object": "in.mp4", key: films[-1], **poster})
        return await work.submit(*inputs, type=kind, max_attempts=20 * kills)

    worker = start_worker(QUEUE="video", LEASE_SECONDS="2")
    await lose_attempts(work, worker, submit, kills, 0.7)
    for name in films:
        await _assert_whole(work, storage, name)
    await assert_stops_clean(worker, tmp_path / "data")
    await wait_until(lambda: not _decoders(tmp_path), 20)


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
