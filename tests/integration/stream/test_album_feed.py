"""The feed of an album: whoever watches, with whatever id, ends with what the database holds for such a viewer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import uuid4

import pytest

from lingxi.conformance.album_model import AlbumModel
from lingxi.domain.errors import Conflict, NotFound
from lingxi.services.publish_photo import Rollback
from lingxi.stream.subject import AlbumKey
from tests.integration.stream.albums import AlbumViewer, Gallery
from tests.integration.stream.stage import Stage
from tests.support.waiting import wait_until


async def _eventful(gallery: Gallery) -> list[Callable[[], Awaitable[object]]]:
    """Steps that change an album in every way; each takes one number."""
    kept, hidden, recalled, deleted, failed = [await gallery.upload() for _ in range(5)]
    return [
        lambda: gallery.publish(kept),
        lambda: gallery.steer("delete", deleted),  # never published: no guest hears of it
        lambda: gallery.publish(hidden),
        lambda: gallery.publish(recalled),
        lambda: gallery.fail(failed),
        lambda: gallery.steer("hide", hidden),
        lambda: gallery.rename("Wedding of A & B"),
        lambda: gallery.steer("recall", recalled),
        lambda: gallery.steer("hide", kept),
        lambda: gallery.steer("show", kept),
        lambda: gallery.steer("hide", failed),
    ]


async def test_members_see_each_step_and_guests_what_is_published(stage: Stage) -> None:
    gallery = await Gallery.open(stage)
    member, guest = await gallery.watch(), await gallery.watch(shared=True)
    await guest.until(lambda v: v.frames)
    photo = await gallery.upload()
    await member.until(lambda v: v.last_id == "2")
    await gallery.publish(photo)
    await guest.until(lambda v: len(v.model.photos) == 1)
    await member.until(lambda v: v.last_id == "3")
    assert member.events == ["snapshot", "photo", "photo"] and member.numbers == [1, 2, 3]
    assert guest.events == ["snapshot", "photo"] and guest.numbers == [1, 3]
    assert [f.data["processingState"] for f in member.frames[1:]] == ["uploaded", "ready"]
    assert not {"fileName", "error", "sizeBytes"} & guest.frames[1].data.keys()
    assert await gallery.differences(member) == await gallery.differences(guest) == []


@pytest.mark.parametrize("shared", [False, True])
async def test_resume_at_every_id_ends_with_the_state_in_the_database(stage: Stage, shared: bool) -> None:
    gallery = await Gallery.open(stage)
    steps = await _eventful(gallery)
    live = await gallery.watch("0", shared=shared)
    await live.until(lambda v: v.frames)
    known = {"0": AlbumModel()}
    for step in steps:
        await step()
        cursor = (await gallery.album(shared=shared))["cursor"]
        await wait_until(lambda c=cursor: live.has_all_up_to(c), 15, "it was told")  # type: ignore[misc]
        known[str(cursor)] = live.model.copy()
    assert await gallery.differences(live) == []
    assert live.numbers == sorted(set(live.numbers))
    if not shared:
        assert live.numbers[-len(steps) :] == list(range(7, 7 + len(steps)))  # dense
    for number, model in known.items():
        resumed = await gallery.watch(number, shared=shared, model=model)
        await gallery.rename(f"after {number}")  # told to all, so that the end is known
        last = str((await gallery.album(shared=shared))["cursor"])
        await resumed.until(lambda v, last=last: v.last_id == last)
        assert await gallery.differences(resumed) == [], f"resumed at {number}"
        assert resumed.model.album == await gallery.album(shared=shared)
        assert all(n > int(number) for n in resumed.numbers) and resumed.numbers == sorted(
            set(resumed.numbers)
        )


async def test_guests_are_told_of_removals_only_where_they_could_have_seen(stage: Stage) -> None:
    gallery = await Gallery.open(stage)
    steps = await _eventful(gallery)
    guest, member = await gallery.watch(shared=True), await gallery.watch()
    await guest.until(lambda v: v.frames)
    await member.until(lambda v: v.frames)
    for step in steps:
        await step()
        cursor = (await gallery.album(shared=False))["cursor"]
        await member.until(lambda v, c=cursor: v.last_id == str(c))
    await guest.until(lambda v: v.events[-1:] == ["photo"] and len(v.frames) == 9)
    assert guest.events == [
        "snapshot", "photo", "photo", "photo", "removed", "snapshot", "removed", "removed", "photo",
    ]  # fmt: skip
    removed = [frame.data for frame in guest.frames if frame.event == "removed"]
    assert [data["visibility"] for data in removed] == ["hidden", "recalled", "hidden"]
    assert all(data.keys() == {"id", "visibility"} for data in removed)
    told = [frame.data for frame in member.frames if frame.event == "removed"]
    assert [("photo" in data, data["visibility"]) for data in told] == [
        (False, "deleted"), (True, "hidden"), (True, "recalled"), (True, "hidden"), (True, "hidden"),
    ]  # fmt: skip


async def test_numbers_that_a_guest_may_not_see_do_not_hold_it_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long runs of changes that only members see, live and while resuming, in pages smaller than the runs."""
    monkeypatch.setattr("lingxi.stream.album_reader._MOST_ROWS", 3)
    gallery = await Gallery.open(stage)
    first = await gallery.photo()
    live = await gallery.watch(shared=True)
    await live.until(lambda v: v.frames)
    for _ in range(10):
        await gallery.upload()
    last = await gallery.photo()
    await live.until(lambda v: str(last) in v.model.photos)
    for last_event_id in ("0", "1", "3", "8"):
        resumed = await gallery.watch(last_event_id, shared=True)
        await resumed.until(lambda v: str(last) in v.model.photos)
        assert (str(first) in resumed.model.photos) == (int(last_event_id) < 3)


async def test_more_changes_than_a_poll_can_read_are_all_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingxi.stream.album_reader._MOST_ROWS", 3)
    gallery = await Gallery.open(stage)
    viewer = await gallery.watch()
    await viewer.until(lambda v: v.frames)
    stage.polls.gate.clear()
    for _ in range(10):
        await gallery.upload()
    stage.polls.gate.set()
    await viewer.until(lambda v: len(v.model.photos) == 10)
    assert viewer.numbers == list(range(1, 12))


@pytest.mark.parametrize("given", ["garbage", "99", "007", "-1"])
async def test_an_id_that_cannot_be_honoured_is_answered_with_everything(stage: Stage, given: str) -> None:
    gallery = await Gallery.open(stage)
    for _ in range(3):
        await gallery.photo()
    for shared in (False, True):
        viewer = await gallery.watch(given, shared=shared)
        await viewer.until(lambda v: len(v.model.photos) == 3)
        assert viewer.events[:2] == ["reset", "snapshot"]
        assert (viewer.frames[0].id, viewer.frames[1].id) == ("0", None)
        assert viewer.frames[1].data == await gallery.album(shared=shared)
        assert await gallery.differences(viewer) == []


async def test_zero_replays_every_photo_over_many_pages(stage: Stage) -> None:
    gallery = await Gallery.open(stage)
    for _ in range(230):
        await gallery.upload()
    await gallery.publish(await gallery.upload())
    viewer = await gallery.watch("0")
    await viewer.until(lambda v: len(v.model.photos) == 231)
    assert await gallery.differences(viewer) == []
    assert viewer.numbers == [1, *range(2, 232), 233]


async def test_the_snapshot_is_the_album_as_it_is_asked_for(stage: Stage) -> None:
    """Also in the middle of changes, where a poll brought the changes and did not count."""
    gallery = await Gallery.open(stage)
    watching = await gallery.watch()
    for _ in range(3):
        await gallery.photo()
        cursor = str((await gallery.album(shared=False))["cursor"])
        await watching.until(lambda v, cursor=cursor: v.last_id == cursor)
        for shared in (False, True):
            fresh = await gallery.watch(shared=shared)
            await fresh.until(lambda v: v.frames)
            assert fresh.events == ["snapshot"] and fresh.last_id == cursor
            assert fresh.frames[0].data == await gallery.album(shared=shared)


async def test_a_cut_at_any_frame_loses_nothing(stage: Stage) -> None:
    gallery = await Gallery.open(stage)
    for step in await _eventful(gallery):
        await step()
    for shared in (False, True):
        whole = await gallery.watch("nonsense", shared=shared)
        await wait_until(lambda v=whole: v.has_all_up_to(17), 15, "all was told")  # type: ignore[misc]
        for cut in range(1, len(whole.frames) + 1):
            viewer = await gallery.watch("nonsense", shared=shared, limit=cut)
            await viewer.ended()
            again = await gallery.watch(viewer.last_id, shared=shared, model=viewer.model)
            expected = {photo["id"] for photo in await gallery.photos(shared=shared)}
            await again.until(lambda v, e=expected: v.model.photos.keys() == e)
            assert await gallery.differences(again) == [], f"cut after {cut} frames"


async def test_random_work_random_cuts(stage: Stage) -> None:
    """Viewers of both kinds are cut again and again while an album changes; all end with the truth."""
    gallery = await Gallery.open(stage)
    over = asyncio.Event()
    done = "the end"

    async def work() -> None:
        rng = random.Random(5)
        photos = [await gallery.upload() for _ in range(5)]
        for _ in range(150):
            verb = rng.choice(("upload", "publish", "publish", "hide", "show", "recall", "delete", "rename"))
            with suppress(Rollback, Conflict, NotFound):  # not possible in this state
                if verb == "upload":
                    photos.append(await gallery.upload())
                elif verb == "rename":
                    await gallery.rename(f"name {rng.random()}")
                elif verb == "publish":
                    await gallery.publish(rng.choice(photos))
                else:
                    await gallery.steer(verb, rng.choice(photos))
            stage.hub.hint_albums([gallery.id])
        await gallery.rename(done)
        over.set()

    async def follow(number: int) -> AlbumViewer:
        rng, viewer = random.Random(number), None
        while viewer is None or (viewer.model.album or {}).get("name") != done:
            limit = rng.choice((1, 2, 3, 9, 40))
            model, last_id = (viewer.model, viewer.last_id) if viewer is not None else (AlbumModel(), "0")
            viewer = await gallery.watch(last_id, shared=number % 2 == 0, model=model, limit=limit)
            await viewer.until(
                lambda v: len(v.frames) >= v.limit or (v.model.album or {}).get("name") == done
            )
            viewer.watcher.stop()
            await viewer.ended()
        return viewer

    _, *viewers = await asyncio.gather(work(), *(follow(number) for number in range(16)))
    for viewer in viewers:
        assert await gallery.differences(viewer) == []


async def test_a_deleted_album_ends_its_streams_and_opens_none(stage: Stage) -> None:
    gallery, other = await Gallery.open(stage), await Gallery.open(stage)
    viewers = [await gallery.watch(), await gallery.watch("0", shared=True)]
    watching = await other.watch()
    for viewer in (*viewers, watching):
        await viewer.until(lambda v: v.frames)
    await gallery.delete()
    for viewer in viewers:
        await viewer.ended()
    for album_id in (gallery.id, uuid4()):
        with pytest.raises(NotFound):
            await stage.hub.open(
                AlbumKey(album_id, False), workspace_id=stage.workspace_id, grant="g", last_event_id=None
            )
    with pytest.raises(NotFound):  # another workspace's
        await stage.hub.open(AlbumKey(other.id, True), workspace_id=uuid4(), grant="g", last_event_id=None)
    assert watching.task is not None and not watching.task.done()
    assert (stage.hub.albums, stage.hub.tasks) == (1, 0)
