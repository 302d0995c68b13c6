"""Uploads through an API process: its memory, and kill -9 at each step."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from lingxi.services.albums import create_album
from tests.integration.api.harness import World
from tests.integration.uploads.stage import BOUNDARY, FORM, jpeg
from tests.integration.uploads.tus_client import BODY, VERSION
from tests.support.processes import Process, Processes

CONTENT = jpeg(1, 300_000)
MIB = 1024 * 1024


@dataclass
class Served:
    """`lingxi api` processes over one database and one folder, one after the other."""

    processes: Processes
    env: dict[str, str]
    album_id: UUID
    token: str

    def start(self, failpoints: str = "") -> tuple[Process, httpx.AsyncClient]:
        process = self.processes.lingxi("api", env={**self.env, "LINGXI_FAILPOINTS": failpoints})
        port = process.wait_for_log(r"127\.0\.0\.1:(\d+)", 60)[1]
        headers = {"Authorization": f"Bearer {self.token}"}
        base = f"http://127.0.0.1:{port}/api/v1/albums/{self.album_id}/"
        return process, httpx.AsyncClient(base_url=base, headers=headers, timeout=120)


@pytest.fixture
async def served(
    processes: Processes, database_url: str, redis_url: str, world: World, pool: Any, tmp_path: Path
) -> Served:
    async with pool.acquire() as connection:
        album = await create_album(connection, world.ours.workspace_id, "A wedding")
    env = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "LINGXI_DATA_DIR": str(tmp_path / "data"),
        "LINGXI_PORT": "0",
        "LINGXI_TESTING": "1",
        "LOG_LEVEL": "info",
    }
    return Served(processes, env, album.id, world.ours.editor)


def _peak_bytes(process: Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


async def _large_form(sizes: list[int]) -> AsyncIterator[bytes]:
    for n, size in enumerate(sizes):
        yield b'--%s\r\nContent-Disposition: form-data; name="f"; filename="%d.jpg"\r\n\r\n' % (BOUNDARY, n)
        yield jpeg(n)
        for _ in range(size // MIB):
            yield bytes(MIB)
        yield b"\r\n"
    yield b"--%s--\r\n" % BOUNDARY


async def _grows_by(served: Served, sizes: list[int]) -> int:
    """By how much the process's peak of memory grows over an upload of such files in a form, and one by tus."""
    process, client = served.start()
    async with client:
        await client.post("photos", content=_large_form([MIB]), headers=FORM)
        before = _peak_bytes(process)
        response = await client.post("photos", content=_large_form(sizes), headers=FORM)
        assert response.status_code == 201, response.text
        assert [file["status"] for file in response.json()["files"]] == ["created"] * len(sizes)
        length = len(jpeg(99)) + sum(sizes) // MIB * MIB

        async def body() -> AsyncIterator[bytes]:
            yield jpeg(99)
            for _ in range(sum(sizes) // MIB):
                yield bytes(MIB)

        headers = {**VERSION, **BODY, "Upload-Length": str(length)}
        created = await client.post("uploads", content=body(), headers=headers)
        assert created.headers.get("lingxi-photo-created") == "true", created.text
        grown = _peak_bytes(process) - before
    assert process.stop() == 0
    return grown


async def test_memory_does_not_grow_with_the_files(served: Served) -> None:
    assert await _grows_by(served, [30 * MIB, 10 * MIB]) < 24 * MIB


@pytest.mark.slow
async def test_memory_does_not_grow_with_large_files(served: Served) -> None:
    assert await _grows_by(served, [200 * MIB, 100 * MIB, 100 * MIB]) < 24 * MIB


SLOW = ("storage.before_rename", "storage.after_put", "api.before_commit", "api.after_commit")


@pytest.mark.parametrize(
    "failpoint", ["api.after_insert", *(pytest.param(point, marks=pytest.mark.slow) for point in SLOW)]
)
async def test_a_killed_api_leaves_the_photo_once_when_it_is_sent_again(
    served: Served, pool: Any, failpoint: str, tmp_path: Path
) -> None:
    process, client = served.start(f"{failpoint}=kill")
    files = [("f", ("a.jpg", CONTENT))]
    async with client:
        with pytest.raises(httpx.TransportError):
            await client.post("photos", files=files, headers={"Idempotency-Key": "k"})
    assert await asyncio.to_thread(process.wait) == -9
    process, client = served.start()
    async with client:
        response = await client.post("photos", files=files, headers={"Idempotency-Key": "k"})
    assert response.status_code == 201 and response.json()["files"][0]["status"] == "created"
    await _is_there_once(pool, tmp_path)


async def test_a_tus_upload_goes_on_at_the_next_process(served: Served, pool: Any, tmp_path: Path) -> None:
    """Killed between the bytes and the row that counts them: they are sent again, and an orphan is left."""
    process, client = served.start("storage.after_put=kill@2")
    async with client:
        head = {**VERSION, **BODY, "Upload-Length": str(len(CONTENT))}
        created = await client.post("uploads", content=CONTENT[:100_000], headers=head)
        name = created.headers["location"].rsplit("/", 1)[1]
        with pytest.raises(httpx.TransportError):
            await _patch(client, name, 100_000)
    assert await asyncio.to_thread(process.wait) == -9
    process, client = served.start()
    async with client:
        told = await client.head(f"uploads/{name}", headers=VERSION)
        assert told.headers["upload-offset"] == "100000"
        done = await _patch(client, name, 100_000)
        assert done.headers["lingxi-photo-created"] == "true"
    await _is_there_once(pool, tmp_path)


async def _patch(client: httpx.AsyncClient, name: str, start: int) -> httpx.Response:
    headers = {**VERSION, **BODY, "Upload-Offset": str(start)}
    return await client.patch(f"uploads/{name}", content=CONTENT[start:], headers=headers)


async def _is_there_once(pool: Any, folder: Path) -> None:
    [photo] = await pool.fetch("select * from photos")
    assert photo["sha256"] == hashlib.sha256(CONTENT).digest()
    assert await pool.fetchval("select count(*) from outbox_events where type = 'photo.uploaded'") == 1
    key = photo["storage_key"]
    assert (folder / "data" / "objects" / "objects" / key[:2] / key).read_bytes() == CONTENT
