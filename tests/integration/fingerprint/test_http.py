"""Duplicates of an album over HTTP: asked for, looked at by a worker on real photos, listed in pages, for members only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from lingxi.api import album_schemas as schemas
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.names import FINGERPRINT_QUEUE
from lingxi.processors.photo_fingerprint import PhotoFingerprint
from lingxi.worker.process import WorkerProcess
from tests.integration.albums.stage import Stage, assert_not_found
from tests.integration.api.harness import make_world, open_api
from tests.integration.fingerprint.looks import jpeg, moved, subject
from tests.support.work import Work, never


@pytest.fixture
async def stage(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str, tmp_path: Path
) -> AsyncIterator[Stage]:
    world: Any = await make_world(pool)
    async with open_api(database_url, redis_url, tmp_path) as api, Stage.open(api, world) as opened:
        yield opened


@pytest.fixture
def work(stage: Stage, pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> Work:
    return Work(pool, database_url, redis_url, stage.world.ours.workspace_id)


@asynccontextmanager
async def worker(stage: Stage, work: Work, folder: Path) -> AsyncIterator[None]:
    """A dispatcher and a worker of photo:fingerprint."""
    decoders = Decoders(DecoderConfig(children=1))
    config = work.config(queues=(FINGERPRINT_QUEUE,), scratch_root=folder / "attempts", lease_seconds=30.0)
    process = WorkerProcess(
        config,
        {FINGERPRINT_QUEUE: PhotoFingerprint(decoders).processor()},
        end_process=never,
        storage=stage.api.deps.storage,
    )
    async with work.dispatching():
        running = asyncio.create_task(process.run())
        try:
            yield
        finally:
            process.ask_to_stop()
            assert await running == 0
            await decoders.close()


async def photo(stage: Stage, album: str, name: str, data: bytes) -> str:
    made = await stage.upload(album, name, data)
    await stage.publish(album, made)
    return made


async def groups(client: httpx.AsyncClient, album: str, **query: Any) -> schemas.DuplicatesPage:
    answer = await client.get(f"albums/{album}/duplicates", params=query)
    assert answer.status_code == 200, answer.text
    return schemas.DuplicatesPage.model_validate(answer.json())


def names(group: schemas.DuplicateGroup) -> list[str | None]:
    return [one.photo.file_name for one in group.photos]


async def test_an_album_is_looked_at_and_its_groups_are_listed(
    stage: Stage, work: Work, tmp_path: Path
) -> None:
    album, raccoon, cat = await stage.album(), subject("raccoon"), subject("cat")
    await photo(stage, album, "cat poor.jpg", jpeg(cat, 25))
    await photo(stage, album, "raccoon half.jpg", jpeg(raccoon.resize(0.5), 95))
    best = await photo(stage, album, "raccoon.jpg", jpeg(raccoon))
    await photo(stage, album, "raccoon blurred.jpg", jpeg(raccoon.gaussblur(2), 95))
    await photo(stage, album, "cat.jpg", jpeg(cat))
    for number, share in enumerate((0.0, 0.05, 0.09)):
        taken = f"2026:05:01 12:00:0{2 * number}"
        await photo(stage, album, f"burst {number}.jpg", jpeg(moved(subject("coffee"), share), taken=taken))
    assert (await groups(stage.editor, album)).fingerprinted == 0

    answer = await stage.editor.post(f"albums/{album}/fingerprint", headers={"Idempotency-Key": "f"})
    assert answer.status_code == 202, answer.text
    (task,) = schemas.FingerprintTasks.model_validate(answer.json()).tasks
    assert (task.type, task.priority, task.counts.total) == (FINGERPRINT_QUEUE, "bulk", 8)
    again = await stage.editor.post(f"albums/{album}/fingerprint", headers={"Idempotency-Key": "f"})
    assert again.content == answer.content
    async with worker(stage, work, tmp_path):
        await work.ended(UUID(task.id), 60)
    assert await work.states(UUID(task.id)) == ["succeeded"] * 8
    assert (await stage.editor.post(f"albums/{album}/fingerprint")).json() == {"tasks": []}

    page = await groups(stage.editor, album)
    assert (page.photos, page.fingerprinted, page.next_cursor) == (8, 8, None)
    assert [(group.kind, names(group)) for group in page.groups] == [
        ("duplicate", ["cat.jpg", "cat poor.jpg"]),
        ("duplicate", ["raccoon.jpg", "raccoon blurred.jpg", "raccoon half.jpg"]),
        ("burst", names(page.groups[2])),
    ]
    assert sorted(names(page.groups[2])) == ["burst 0.jpg", "burst 1.jpg", "burst 2.jpg"]

    first = await groups(stage.editor, album, limit=1)
    rest = await groups(stage.editor, album, limit=2, cursor=first.next_cursor)
    assert first.groups + rest.groups == page.groups and rest.next_cursor is None
    bad = await stage.editor.get(f"albums/{album}/duplicates", params={"cursor": "x"})
    assert (bad.status_code, bad.json()["code"]) == (400, 40001)

    assert (await stage.editor.delete(f"albums/{album}/photos/{best}")).status_code == 204
    left = await groups(stage.editor, album)
    assert names(left.groups[1]) == ["raccoon blurred.jpg", "raccoon half.jpg"]
    assert (left.photos, left.fingerprinted) == (7, 7)


async def test_members_only(stage: Stage) -> None:
    album = await stage.album()
    await stage.photo(album)
    guest = await stage.guest(album)
    assert_not_found(await guest.get(f"albums/{album}/duplicates"))
    assert_not_found(await guest.post(f"albums/{album}/fingerprint"))
    async with stage.api.client(stage.world.theirs.editor) as stranger:
        assert_not_found(await stranger.get(f"albums/{album}/duplicates"))
        assert_not_found(await stranger.post(f"albums/{album}/fingerprint"))
    async with stage.api.client(stage.world.ours.viewer) as viewer:
        assert (await groups(viewer, album)).groups == []
        assert (await viewer.post(f"albums/{album}/fingerprint")).status_code == 403
    assert ("album.fingerprint", f"album:{album}") not in await stage.audit()
    await stage.editor.post(f"albums/{album}/fingerprint")
    assert ("album.fingerprint", f"album:{album}") in await stage.audit()
