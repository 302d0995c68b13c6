"""What viewers of albums cost, how soon they hear, and when a photo was first shown to one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import orjson
import pytest

from lingxi.services.share_links import create_share_link, revoke_share_link
from lingxi.services.valid_grants import valid_grants
from lingxi.stream.hub import HubConfig
from tests.integration.stream.albums import Gallery
from tests.integration.stream.stage import Stage, open_stage
from tests.support.waiting import wait_until


@pytest.fixture
async def hinted(pool: Any, database_url: str) -> AsyncIterator[Stage]:
    """The floor is far away: only hints and newcomers make it ask."""
    config = HubConfig(poll_seconds=60, access_check_seconds=60, close_seconds=1)
    async with open_stage(pool, database_url, config) as stage:
        yield stage


async def _statements(stage: Stage, viewers: int) -> int:
    """Reads for so many viewers of one album to join, and for five changes that all of them see."""
    gallery, before = await Gallery.open(stage), len(stage.polls.reads)
    guests = await asyncio.gather(*(gallery.watch(shared=True) for _ in range(viewers)))
    await asyncio.gather(*(guest.until(lambda v: v.frames) for guest in guests))
    for count in range(1, 6):
        await gallery.photo()
        stage.hub.hint_albums([gallery.id])
        await asyncio.gather(*(g.until(lambda v, c=count: len(v.model.photos) == c) for g in guests))
    assert not stage.pages.reads
    for guest in guests:
        guest.watcher.stop()
        await guest.ended()
    return len(stage.polls.reads) - before


async def test_viewers_cost_no_statements(hinted: Stage) -> None:
    assert await _statements(hinted, 3) == await _statements(hinted, 300) == 6


async def test_tasks_and_albums_share_the_poll(stage: Stage) -> None:
    galleries = [await Gallery.open(stage) for _ in range(5)]
    tasks = [await stage.submit(1) for _ in range(5)]
    for task in tasks:
        await stage.watching(task)
    for gallery in galleries:
        await gallery.watch()
        await gallery.watch(shared=True)
    await wait_until(lambda: len(stage.polls.reads[-1]) == 15, message="one poll for all of them")
    assert (stage.hub.tasks, stage.hub.albums, stage.hub.watchers) == (5, 5, 15)


async def test_changes_that_a_guest_is_not_told_of_do_not_keep_it_from_heartbeats(
    pool: Any, database_url: str
) -> None:
    config = HubConfig(poll_seconds=0.02, heartbeat_seconds=0.5, close_seconds=1)
    async with open_stage(pool, database_url, config) as stage:
        gallery = await Gallery.open(stage)
        guest = await gallery.watch(shared=True)
        await guest.until(lambda v: v.frames)

        async def heard() -> bool:
            await gallery.upload()  # more often than a heartbeat is due
            return guest.parser.comments > 0

        await wait_until(heard, 10, "a heartbeat")
        assert guest.events == ["snapshot"]


async def test_first_frames_are_noted_once_and_change_nothing_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingxi.stream.first_frames.BATCH_SECONDS", 0.01)
    gallery = await Gallery.open(stage)
    member, guests = await gallery.watch(), [await gallery.watch(shared=True) for _ in range(3)]
    for viewer in (member, *guests):
        await viewer.until(lambda v: v.frames)
    photo, waits = await gallery.photo(), await gallery.upload()
    for viewer in (member, *guests):
        await viewer.until(lambda v: str(photo) in v.model.photos)
    before = (await gallery.album(shared=False))["cursor"]

    async def timeline(photo_id: object) -> dict[str, str]:
        text = await stage.pool.fetchval("select timeline from photos where id = $1", photo_id)
        return orjson.loads(text)  # type: ignore[no-any-return]

    await wait_until(lambda: stage.first_frames, message="it is written")

    async def written() -> bool:
        return "firstFrame" in await timeline(photo)

    await wait_until(written, message="it is in the timeline")
    first = (await timeline(photo))["firstFrame"]
    committed = (await timeline(photo))["committed"]
    assert datetime.fromisoformat(first) >= datetime.fromisoformat(committed)
    late = await gallery.watch("0", shared=True)
    await late.until(lambda v: str(photo) in v.model.photos)
    await stage.pool.execute("update photos set requested_generation = 2 where id = $1", photo)
    await gallery.publish(photo, generation=2)
    await late.until(lambda v: v.model.photos[str(photo)]["generation"] == 2)
    assert [list(times) for times in stage.first_frames] == [[photo]]
    assert (await timeline(photo))["firstFrame"] == first and "firstFrame" not in await timeline(waits)
    assert (await gallery.album(shared=False))["cursor"] == before + 1


async def test_a_photo_that_is_worked_on_gets_its_first_frame_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is locked when the batch is written: that neither waits nor loses it."""
    monkeypatch.setattr("lingxi.stream.first_frames.BATCH_SECONDS", 0.01)
    gallery = await Gallery.open(stage)
    viewer = await gallery.watch()
    await viewer.until(lambda v: v.frames)
    photo = await gallery.photo()
    async with stage.pool.acquire() as c, c.transaction():
        await c.execute("select from photos where id = $1 for update", photo)
        await viewer.until(lambda v: v.model.photos.get(str(photo), {}).get("visibility") == "published")
        await wait_until(lambda: stage.first_frames, message="a first try")
    query = "select timeline ? 'firstFrame' from photos where id = $1"
    await wait_until(lambda: stage.pool.fetchval(query, photo), message="a later try")


async def test_a_revoked_or_expired_link_ends_its_streams_at_the_hint(hinted: Stage) -> None:
    """Of three links of one album and a member only two links' streams end, after one statement."""
    gallery = await Gallery.open(hinted)
    async with hinted.pool.acquire() as c:
        links = [(await create_share_link(c, gallery.id, lifetime_seconds=3600))[0] for _ in range(3)]
    token = hinted.workspace_id  # any id of no token
    checks = 0

    async def check(grants: Any) -> set[Any]:
        nonlocal checks
        checks += 1
        async with hinted.pool.acquire() as c:
            return await valid_grants(c, grants) | {token}

    hinted.hub._check_access = check
    guests = [await gallery.watch(shared=True, grant=("share", link.id)) for link in links]
    member = await gallery.watch(grant=token)
    for viewer in (*guests, member):
        await viewer.until(lambda v: v.frames)
    async with hinted.pool.acquire() as c:
        await revoke_share_link(c, gallery.id, links[0].id)
        await c.execute("update share_links set expires_at = now() where id = $1", links[1].id)
    hinted.hub.hint_access()
    await guests[0].ended()
    await guests[1].ended()
    assert [viewer.task.done() for viewer in (guests[2], member) if viewer.task] == [False, False]
    assert (checks, hinted.hub.counts.revoked) == (1, 2)
