"""Albums: create, list, show, change, delete; audited, idempotent, and nobody else's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lingxi.api import album_schemas as schemas
from lingxi.broker.hints import Hints
from lingxi.maintenance.photo_sweep import PhotoSweeper
from lingxi.services import clear_album
from tests.integration.albums.stage import Stage, assert_not_found


async def test_an_album_is_created_shown_changed_and_listed(stage: Stage) -> None:
    made = await stage.editor.post("albums", json={"name": "Hochzeit 💍 <b>"})
    assert made.status_code == 201
    album = made.json()
    schemas.Album.model_validate(album)
    assert (album["name"], album["originalsShared"], album["cursor"]) == ("Hochzeit 💍 <b>", False, 1)
    assert made.headers["location"] == f"/api/v1/albums/{album['id']}"
    assert (await stage.editor.get(made.headers["location"].removeprefix("/api/v1/"))).json() == album
    changed = await stage.editor.patch(f"albums/{album['id']}", json={"name": "Wedding"})
    assert changed.json() == {**album, "name": "Wedding", "cursor": 2}
    changed = await stage.editor.patch(f"albums/{album['id']}", json={"originalsShared": True})
    assert (changed.json()["name"], changed.json()["originalsShared"]) == ("Wedding", True)
    for nothing in ({}, {"name": None}):
        assert (await stage.editor.patch(f"albums/{album['id']}", json=nothing)).json() == changed.json()
    assert (await stage.editor.get("albums")).json() == {"albums": [changed.json()], "nextCursor": None}
    target = f"album:{album['id']}"
    assert await stage.audit() == [
        ("album.create", target),
        ("album.change", target),
        ("album.change", target),
    ]


async def test_albums_are_paged_newest_first(stage: Stage) -> None:
    names = [f"album {n}" for n in range(5)]
    for name in names:
        await stage.album(name=name)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await stage.editor.get("albums", params={"limit": 2, **cursor})).json()
        seen += [album["name"] for album in page["albums"]]
        if page["nextCursor"] is None:
            break
        await stage.album(name="came meanwhile")
        cursor = {"cursor": page["nextCursor"]}
    assert seen == names[::-1], "neither repeated nor skipped"
    async with stage.api.client(stage.world.theirs.admin) as theirs:
        assert (await theirs.get("albums")).json() == {"albums": [], "nextCursor": None}
        assert (await theirs.get("albums", params=cursor)).status_code == 400
    for wrong in ({"limit": 501}, {"limit": "x"}, {"cursor": "x"}, {"order": "name"}):
        assert (await stage.editor.get("albums", params=wrong)).json()["code"] == 40001


async def test_counts_say_what_becomes_of_photos(stage: Stage) -> None:
    album = await stage.album()
    await stage.photo(album)
    hidden = await stage.photo(album)
    await stage.steer(album, hidden, "hide")
    await stage.upload(album)
    counts = (await stage.editor.get(f"albums/{album}")).json()["counts"]
    assert counts == {"photos": 3, "published": 1, "failed": 0, "processing": 1}
    guest = await stage.guest(album)
    assert (await guest.get(f"albums/{album}")).json()["counts"] == {"published": 1}


WRONG_BODIES: list[Any] = [
    [], None, "name", {"name": ""}, {"name": "x" * 201}, {"name": 5}, {"name": "x", "more": 1},
    {"name": "x", "originalsShared": "yes"}, {"name": "a\0b"},
]  # fmt: skip


async def test_wrong_bodies_are_refused_and_leave_nothing(stage: Stage) -> None:
    album = await stage.album()
    before = await stage.audit()
    for body in WRONG_BODIES:
        for method, path in (("POST", "albums"), ("PATCH", f"albums/{album}")):
            answer = await stage.editor.request(
                method, path, content=json.dumps(body), headers={"Content-Type": "application/json"}
            )
            assert (answer.status_code, answer.json()["code"]) == (422, 40001), (method, body)
    assert (await stage.editor.post("albums", content=b"{,")).status_code == 400
    assert await stage.audit() == before
    assert len((await stage.editor.get("albums")).json()["albums"]) == 1


async def test_a_key_makes_one_album(stage: Stage) -> None:
    key = {"Idempotency-Key": "one"}
    first = await stage.editor.post("albums", json={"name": "A"}, headers=key)
    again = await stage.editor.post("albums", content=b'{ "name": "A" }', headers=key)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    for other in ({"name": "B"}, {"name": ""}):
        answer = await stage.editor.post("albums", json=other, headers=key)
        assert (answer.status_code, answer.json()["code"]) == (409, 40902)
    assert [verb for verb, _ in await stage.audit()] == ["album.create"]


async def test_a_deleted_album_is_gone_with_its_photos_links_and_files(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    address = await stage.picture(album, photo)
    guest = await stage.guest(album)
    assert (await guest.get(address)).status_code == 200
    assert (await stage.editor.delete(f"albums/{album}")).status_code == 204
    paths = ("", "/photos", f"/photos/{photo}", "/stats", "/shares", f"/photos/{photo}/timeline")
    for client in (stage.editor, guest):
        for path in paths:
            assert_not_found(await client.get(f"albums/{album}{path}"))
        assert_not_found(await client.get(address))
    assert_not_found(await stage.editor.delete(f"albums/{album}"))
    pool = stage.api.deps.pool
    assert await pool.fetchval("select deleted_at is not null from photos") is True
    assert await pool.fetchval("select count(*) from photo_variants") == 0
    assert await pool.fetchval("select count(*) from object_trash") == 3, "original, thumb, browse"
    soon = "select bool_and(remove_at < now() + interval '1 day') from object_trash"
    assert await pool.fetchval(soon)


async def test_a_huge_album_is_deleted_in_steps(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request takes one step, so that it is short; the sweep takes the others."""
    album, other = await stage.album(), await stage.album()
    for _ in range(5):
        await stage.photo(album)
    await stage.photo(other)
    monkeypatch.setattr(clear_album.clear_album, "__kwdefaults__", {"limit": 2})
    monkeypatch.setattr("lingxi.maintenance.photo_sweep.PHOTOS_A_STEP", 2)
    pool = stage.api.deps.pool
    left = "select count(*) from photos where deleted_at is null"
    assert (await stage.editor.delete(f"albums/{album}")).status_code == 204
    assert await pool.fetchval(left) == 4
    counts = await PhotoSweeper(pool, _NoQueue()).sweep_once()
    assert (counts.cleared, await pool.fetchval(left)) == (3, 1)
    assert (await PhotoSweeper(pool, _NoQueue()).sweep_once()).cleared == 0
    assert await pool.fetchval("select count(*) from object_trash") == 15


class _NoQueue:
    """Redis holds nothing and takes everything."""

    async def add_many(self, jobs: Any, **_: Any) -> None: ...

    async def exist(self, job_ids: list[str]) -> list[bool]:
        return [True for _ in job_ids]

    async def waiting(self) -> int:
        return 0


async def test_a_reprocess_is_one_task_in_bulk_priority(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    album = await stage.album()
    nothing = await stage.editor.post(f"albums/{album}/reprocess")
    assert (nothing.status_code, nothing.json()["code"]) == (409, 40901)
    photos = [await stage.photo(album) for _ in range(3)]
    answer = await stage.editor.post(f"albums/{album}/reprocess", headers={"Idempotency-Key": "r"})
    assert answer.status_code == 202
    (task,) = schemas.Reprocess.model_validate(answer.json()).tasks
    assert (task.type, task.priority, task.counts.total) == ("photo:process", "bulk", 3)
    again = await stage.editor.post(f"albums/{album}/reprocess", headers={"Idempotency-Key": "r"})
    assert again.content == answer.content
    items = (await stage.editor.get(f"media-tasks/{task.id}/items")).json()["items"]
    assert [(item["ref"], item["input"]["generation"]) for item in items] == [(one, 2) for one in photos]
    monkeypatch.setattr("lingxi.services.request_reprocess.ITEMS_PER_TASK", 2)
    tasks = (await stage.editor.post(f"albums/{album}/reprocess")).json()["tasks"]
    assert [one["counts"]["total"] for one in tasks] == [2, 1]


async def test_what_changes_is_told_to_dispatcher_and_viewers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    told: list[Any] = []
    monkeypatch.setattr(Hints, "publish_albums", lambda self, ids: told.extend(map(str, ids)))
    monkeypatch.setattr(Hints, "publish_outbox", lambda self: told.append("outbox"))
    monkeypatch.setattr(Hints, "publish_access", lambda self: told.append("access"))
    await stage.steer(album, photo, "hide")
    await stage.editor.patch(f"albums/{album}", json={"name": "x"})
    assert told == ["outbox", album] * 2
    link = await stage.share(album)
    told.clear()
    await stage.editor.delete(f"albums/{album}/shares/{link['id']}")
    assert "access" in told
