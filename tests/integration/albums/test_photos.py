"""Photos: in the album's order, hidden and shown, recalled, deleted; originals for those who may; where the time went."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from lingxi.api import album_schemas as schemas
from tests.integration.albums.stage import Stage, assert_not_found, picture_of

UNKNOWN = "01938f2e-4c00-7a31-9b5e-6f2d8c1a0000"


async def test_photos_come_by_capture_time_and_then_upload_number(stage: Stage) -> None:
    album = await stage.album()
    late = await stage.photo(album, captured_at=datetime(2026, 5, 1, 12, 0, 1, tzinfo=UTC))
    early = await stage.photo(album, captured_at=datetime(2026, 5, 1, 11, tzinfo=UTC))
    without = await stage.photo(album)  # sorted by its upload, long after
    same = await stage.photo(album, captured_at=datetime(2026, 5, 1, 12, 0, 1, tzinfo=UTC))
    wanted = [early, late, same, without]
    for client in (stage.editor, await stage.guest(album)):
        listed = (await client.get(f"albums/{album}/photos")).json()
        schemas.PhotoPage.model_validate(listed)
        assert [photo["id"] for photo in listed["photos"]] == wanted
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await client.get(f"albums/{album}/photos", params={"limit": 1, **cursor})).json()
            seen += [photo["id"] for photo in page["photos"]]
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert seen == wanted
    assert (await stage.editor.get(f"albums/{album}/photos", params=cursor)).status_code == 400, "a guest's"


async def test_guests_are_told_of_published_photos_only_and_no_file_name(stage: Stage) -> None:
    album = await stage.album()
    shown, hidden, failed = [await stage.photo(album, f"IMG_{n}.jpg") for n in range(3)]
    await stage.steer(album, hidden, "hide")
    waiting = await stage.upload(album)
    pool = stage.api.deps.pool
    await pool.execute(
        "update photos set processing_state = 'processing_failed', error_code = 'corrupt_image' where id = $1",
        waiting,
    )
    guest = await stage.guest(album)
    (photo,) = [
        one for one in (await guest.get(f"albums/{album}/photos")).json()["photos"] if one["id"] == shown
    ]
    assert {"fileName", "sizeBytes", "contentType", "error"}.isdisjoint(photo)
    assert {one["id"] for one in (await guest.get(f"albums/{album}/photos")).json()["photos"]} == {
        shown,
        failed,
    }
    for unseen in (hidden, waiting, UNKNOWN, "no-uuid"):
        assert_not_found(await guest.get(f"albums/{album}/photos/{unseen}"))
    member = await stage.show(album, waiting)
    assert member["error"] == {
        "code": "corrupt_image",
        "message": "The picture is damaged.",
        "advice": "This photo is damaged and cannot be opened. Copy it from the camera again.",
    }
    assert len((await stage.editor.get(f"albums/{album}/photos")).json()["photos"]) == 4


async def test_a_photo_is_hidden_shown_again_recalled_and_stays_recalled(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    before = await stage.show(album, photo)
    for _ in range(2):
        hidden = await stage.steer(album, photo, "hide")
        assert (hidden["visibility"], hidden["entityVersion"]) == ("hidden", 2), "again is the same"
    preview = picture_of(hidden)
    assert "/previews/" in preview
    seen = await stage.editor.get(preview)
    assert (seen.status_code, seen.headers["cache-control"]) == (200, "private, no-cache")
    shown = await stage.steer(album, photo, "show")
    assert shown == {**before, "entityVersion": 3}
    for _ in range(2):
        recalled = await stage.steer(album, photo, "recall")
        assert (recalled["visibility"], recalled["variants"]) == ("recalled", [])
    for verb in ("hide", "show"):
        answer = await stage.editor.post(f"albums/{album}/photos/{photo}/{verb}")
        assert (answer.status_code, answer.json()["code"]) == (409, 40901)
    assert_not_found(await stage.editor.get(preview))
    assert_not_found(await stage.editor.get(f"albums/{album}/photos/{photo}/original"))
    files = await stage.api.deps.pool.fetchval("select count(*) from object_trash")
    assert files == 3, "its original goes, too"
    verbs = [verb for verb, _ in await stage.audit()]
    assert verbs == ["album.create", *["photo.hide"] * 2, "photo.show", *["photo.recall"] * 2]


async def test_a_deleted_photo_is_gone_and_its_bytes_may_come_again(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.upload(album, data=b"the same bytes")
    assert (await stage.editor.delete(f"albums/{album}/photos/{photo}")).status_code == 204
    assert_not_found(await stage.editor.get(f"albums/{album}/photos/{photo}"))
    assert_not_found(await stage.editor.delete(f"albums/{album}/photos/{photo}"))
    assert_not_found(await stage.editor.post(f"albums/{album}/photos/{photo}/hide"))
    assert await stage.upload(album, data=b"the same bytes") != photo


async def test_a_photo_is_found_in_its_own_album_only(stage: Stage) -> None:
    album, other = await stage.album(), await stage.album()
    photo = await stage.photo(album)
    assert_not_found(await stage.editor.get(f"albums/{other}/photos/{photo}"))
    assert_not_found(await stage.editor.post(f"albums/{other}/photos/{photo}/recall"))
    assert_not_found(await stage.editor.get((await stage.picture(album, photo)).replace(album, other)))
    assert (await stage.show(album, photo))["visibility"] == "published"


async def test_originals_are_for_editors_and_for_guests_where_the_album_says_so(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.upload(album, 'Ünï "name"/..\\x.jpg', b"the original")
    await stage.publish(album, photo)
    path = f"albums/{album}/photos/{photo}/original"
    guest = await stage.guest(album)
    async with stage.api.client(stage.world.ours.viewer) as viewer:
        answer = await viewer.get(path)
        assert (answer.status_code, answer.json()["code"]) == (403, 40301)
        assert (await viewer.get(path.replace(album, UNKNOWN))).status_code == 403, "before 404"
    assert_not_found(await guest.get(path))
    await stage.editor.patch(f"albums/{album}", json={"originalsShared": True})
    for client in (stage.editor, guest):
        answer = await client.get(path)
        assert (answer.status_code, answer.content) == (200, b"the original")
        assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%C3%9Cn%C3%AF")
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["etag"] == f'"{hashlib.sha256(b"the original").hexdigest()}"'
    part = await guest.get(path, headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"orig")
    await stage.steer(album, photo, "hide")
    assert_not_found(await guest.get(path))
    assert (await stage.editor.get(path)).status_code == 200


async def test_the_timeline_and_the_statistics_of_an_album(stage: Stage) -> None:
    album = await stage.album()
    photos = [await stage.photo(album) for _ in range(3)]
    first: dict[str, Any] = (await stage.editor.get(f"albums/{album}/photos/{photos[0]}/timeline")).json()
    schemas.Timeline.model_validate(first)
    stages = {one["stage"]: one for one in first["stages"]}
    assert list(stages) == [
        "received", "stored", "enqueued", "started", "decoded", "encoded", "variantsStored", "committed",
    ]  # fmt: skip
    assert stages["received"]["ms"] is None
    assert [stages[name]["ms"] for name in ("started", "decoded", "encoded")] == [10.0, 10.0, 10.0]
    assert stages["committed"]["ms"] == 0.0, "clocks may differ: never less than nothing"
    summary = (await stage.editor.get(f"albums/{album}/stats")).json()
    schemas.AlbumStats.model_validate(summary)
    by_stage = {one["stage"]: one for one in summary["stages"]}
    assert list(by_stage) == [*list(stages)[1:], "published"]
    assert by_stage["decoded"] == {
        "stage": "decoded",
        "count": 3,
        "p50Ms": 10.0,
        "p95Ms": 10.0,
        "maxMs": 10.0,
    }
    await stage.publish(album, photos[0], generation=2) if await _ask_again(stage, album) else None
    again = (await stage.editor.get(f"albums/{album}/photos/{photos[0]}/timeline")).json()
    assert again == first, "it tells of the first publication"
    assert (await stage.editor.get(f"albums/{await stage.album()}/stats")).json()["stages"] == []


async def _ask_again(stage: Stage, album: str) -> bool:
    return (await stage.editor.post(f"albums/{album}/reprocess")).status_code == 202


async def test_a_body_is_not_taken_where_nothing_is_to_be_said(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    answer = await stage.editor.post(f"albums/{album}/photos/{photo}/hide", json={"why": "blurred"})
    assert (answer.status_code, answer.json()["code"]) == (422, 40001)
    assert (await stage.show(album, photo))["visibility"] == "published"
