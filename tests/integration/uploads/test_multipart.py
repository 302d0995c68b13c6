"""Photos in a form: an answer for each file, nothing left behind, one photo for the same bytes."""

from __future__ import annotations

import asyncio
import hashlib

import orjson
import pytest

from tests.integration.uploads.stage import Stage, file_part, form, jpeg, outcomes, part

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
RAW = b"FUJIFILMCCD-RAW 0201" + bytes(100)


async def test_a_photo_becomes_rows_a_job_and_an_event_over_stored_bytes(stage: Stage) -> None:
    content = jpeg(1, 100_000)
    response = await stage.post(("IMG_0001.JPG", content))
    assert response.status_code == 201, response.text
    [file] = response.json()["files"]
    assert (file["fileName"], file["status"]) == ("IMG_0001.JPG", "created")
    [photo] = await stage.photos()
    assert file["photo"]["id"] == str(photo["id"])
    assert (photo["file_name"], photo["size_bytes"], photo["content_type"]) == (
        "IMG_0001.JPG", len(content), "image/jpeg",
    )  # fmt: skip
    assert photo["sha256"] == hashlib.sha256(content).digest()
    assert stage.stored() == [photo["storage_key"]]
    assert (
        await stage.pool.fetchval("select state from photo_jobs where photo_id = $1", photo["id"])
        == "pending"
    )
    events = await stage.pool.fetch("select type, payload from outbox_events")
    assert [(e["type"], orjson.loads(e["payload"])["photoId"]) for e in events] == [
        ("photo.uploaded", str(photo["id"]))
    ]
    audit = await stage.pool.fetch("select verb, target from audit_log where verb = 'photo.upload'")
    assert [(row["verb"], row["target"]) for row in audit] == [("photo.upload", f"album:{stage.album_id}")]
    assert set(orjson.loads(photo["timeline"])) == {"received", "stored"}


async def test_each_file_is_answered_in_order_and_a_refused_one_refuses_no_other(stage: Stage) -> None:
    response = await stage.post(
        ("a.jpg", jpeg(1)),
        ("notes.jpg", b"only words"),
        ("a.raf", RAW),
        ("b.heic", PNG),
        ("huge.jpg", jpeg(2, 256 * 1024 + 1)),
        ("empty.jpg", b""),
        ("c.jpg", jpeg(3)),
    )
    assert response.status_code == 201
    assert outcomes(response) == [
        ("created", ""),
        ("refused", "unsupported_type"),
        ("refused", "unsupported_type"),
        ("created", ""),
        ("refused", "too_large"),
        ("refused", "empty_file"),
        ("created", ""),
    ]
    files = response.json()["files"]
    assert "RAW" in files[2]["error"]["message"]
    assert "262144 bytes" in files[4]["error"]["message"]
    photos = await stage.photos()
    assert [(p["file_name"], p["content_type"]) for p in photos] == [
        ("a.jpg", "image/jpeg"), ("b.heic", "image/png"), ("c.jpg", "image/jpeg"),
    ]  # fmt: skip
    assert stage.stored() == sorted(p["storage_key"] for p in photos)


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [(b"only words", 415, 41501), (RAW, 415, 41501), (jpeg(1, 300_000), 413, 41301), (b"", 422, 40001)],
)
async def test_a_file_that_comes_alone_is_refused_with_its_problem(
    stage: Stage, content: bytes, status: int, code: int
) -> None:
    response = await stage.post(("x.jpg", content))
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert await stage.photos() == [] and stage.stored() == []


async def test_several_files_that_are_all_refused_are_told_so_and_write_nothing(stage: Stage) -> None:
    response = await stage.post(("a.txt", b"a"), ("b.txt", b"b"))
    assert response.status_code == 200
    assert outcomes(response) == [("refused", "unsupported_type")] * 2
    assert await stage.count("audit_log") == 0 and stage.stored() == []


async def test_the_same_bytes_are_the_same_photo(stage: Stage) -> None:
    first = (await stage.post(("a.jpg", jpeg(1)))).json()["files"][0]["photo"]
    again = await stage.post(("other name.jpg", jpeg(1)), ("b.jpg", jpeg(2)), ("c.jpg", jpeg(2)))
    assert again.status_code == 201
    assert outcomes(again) == [("exists", ""), ("created", ""), ("exists", "")]
    assert again.json()["files"][0]["photo"] == first
    photos = await stage.photos()
    assert stage.stored() == sorted(p["storage_key"] for p in photos) and len(photos) == 2
    only_known = await stage.post(("a.jpg", jpeg(1)))
    assert (only_known.status_code, outcomes(only_known)) == (200, [("exists", "")])
    assert await stage.count("outbox_events") == 2


async def test_ten_at_once_of_the_same_file_are_one_photo(stage: Stage) -> None:
    responses = await asyncio.gather(*(stage.post((f"{n}.jpg", jpeg(1, 50_000))) for n in range(10)))
    assert sorted(response.status_code for response in responses) == [200] * 9 + [201]
    ids = {response.json()["files"][0]["photo"]["id"] for response in responses}
    [photo] = await stage.photos()
    assert ids == {str(photo["id"])}
    assert stage.stored() == [photo["storage_key"]]
    assert await stage.count("outbox_events") == 1


async def test_a_failed_photo_is_processed_anew_and_a_deleted_one_is_a_new_photo(stage: Stage) -> None:
    [first] = (await stage.post(("a.jpg", jpeg(1)))).json()["files"]
    await stage.pool.execute(
        "update photos set processing_state = 'processing_failed', error_code = 'corrupt_image'"
    )
    await stage.pool.execute("update photo_jobs set state = 'failed', finished_at = now()")
    [again] = (await stage.post(("a.jpg", jpeg(1)))).json()["files"]
    assert (again["status"], again["photo"]["id"]) == ("exists", first["photo"]["id"])
    assert (again["photo"]["processingState"], again["photo"]["error"]) == ("uploaded", None)
    assert await stage.count("outbox_events") == 2
    await stage.pool.execute("update photos set deleted_at = now()")
    [new] = (await stage.post(("a.jpg", jpeg(1)))).json()["files"]
    assert new["status"] == "created" and new["photo"]["id"] != first["photo"]["id"]


async def test_only_editors_of_the_albums_workspace_upload(stage: Stage) -> None:
    async def refused(token: str | None, album: str) -> tuple[int, int]:
        async with stage.api.client(token) as client:
            response = await client.post(f"albums/{album}/photos", files=[("files", ("a.jpg", jpeg(1)))])
        return response.status_code, response.json()["code"]

    ours, theirs = stage.world.ours, stage.world.theirs
    album = str(stage.album_id)
    assert await refused(None, album) == (401, 40101)
    assert await refused(ours.viewer, album) == (403, 40301)
    assert await refused(stage.world.operator, album) == (403, 40301)
    for token, at in (
        (theirs.editor, album),
        (ours.editor, "nonsense"),
        (ours.editor, str(ours.workspace_id)),
    ):
        assert await refused(token, at) == (404, 40401)
    assert await stage.photos() == [] and stage.stored() == []


async def test_a_malformed_form_is_refused_whole_and_leaves_nothing(stage: Stage) -> None:
    good = file_part(b"a.jpg", jpeg(1))
    for body in (good, good + b"--other--\r\n", b"no parts at all", b"", good + b"--xXxBoundaryxXx?\r\n"):
        response = await stage.post_raw(body)
        assert (response.status_code, response.json()["code"]) == (400, 40001), body
    assert (await stage.post_raw(form([]))).json()["detail"] == "The form holds no file."
    field_only = form([part(b'form-data; name="album"', b"x")])
    assert (await stage.post_raw(field_only)).status_code == 400
    assert await stage.photos() == [] and stage.stored() == []
    for content_type, status in (("application/json", 415), ("multipart/form-data", 400)):
        response = await stage.client.post(stage.path, content=good, headers={"Content-Type": content_type})
        assert response.status_code == status


async def test_too_many_files_too_large_a_form_and_too_large_a_field_name_their_limits(stage: Stage) -> None:
    many = await stage.post(*((f"{n}.jpg", jpeg(n)) for n in range(13)))
    large = await stage.post(*((f"{n}.jpg", jpeg(n, 200_000)) for n in range(6)))
    field = await stage.post_raw(form([part(b'form-data; name="x"', bytes(70_000))]))
    for response, limit in ((many, "12 files"), (large, "1048576 bytes"), (field, "65536 bytes")):
        assert response.status_code == 413 and limit in response.json()["detail"]
    assert await stage.photos() == [] and stage.stored() == []
