"""Resumable uploads: the protocol's core and its extensions, and what becomes of the photo."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest

from lingxi.api.routes import tus as tus_routes
from lingxi.services import resumable_uploads
from tests.integration.uploads.stage import Stage, jpeg
from tests.integration.uploads.tus_client import (
    BODY,
    VERSION,
    address,
    create,
    created,
    head,
    metadata,
    offset,
    patch,
)

CONTENT = jpeg(1, 200_000)


async def test_options_tell_what_is_offered_without_a_token(stage: Stage) -> None:
    async with stage.api.client() as nobody:
        response = await nobody.options(f"albums/{stage.album_id}/uploads")
    assert response.status_code == 204
    assert response.headers["tus-version"] == response.headers["tus-resumable"] == "1.0.0"
    assert response.headers["tus-extension"] == (
        "creation,creation-with-upload,checksum,expiration,termination"
    )
    assert response.headers["tus-max-size"] == str(256 * 1024)
    assert response.headers["tus-checksum-algorithm"] == "sha1,sha256,md5"


async def test_an_upload_in_pieces_becomes_one_photo(stage: Stage) -> None:
    at = await created(stage, len(CONTENT), name="Ünal \u202e☃.jpg")
    assert await offset(stage, at) == 0
    first = await patch(stage, at, 0, CONTENT[:70_000])
    assert (first.status_code, first.headers["upload-offset"]) == (204, "70000")
    assert "lingxi-photo-id" not in first.headers
    expires = parsedate_to_datetime(first.headers["upload-expires"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=1)) < timedelta(minutes=5)
    last = await patch(stage, at, 70_000, CONTENT[70_000:])
    [photo] = await stage.photos()
    for response in (last, await head(stage, at)):
        assert response.headers["lingxi-photo-id"] == str(photo["id"])
        assert response.headers["lingxi-photo-created"] == "true"
        assert response.headers["upload-offset"] == str(len(CONTENT))
    assert (photo["file_name"], photo["sha256"], photo["size_bytes"], photo["content_type"]) == (
        "Ünal ☃.jpg", hashlib.sha256(CONTENT).digest(), len(CONTENT), "image/jpeg",
    )  # fmt: skip
    assert (
        stage.folder / "objects" / photo["storage_key"][:2] / photo["storage_key"]
    ).read_bytes() == CONTENT
    assert stage.stored() == [photo["storage_key"]] and await stage.count("upload_parts") == 0
    assert await stage.count("outbox_events") == 1
    audit = await stage.pool.fetch("select verb from audit_log order by at, verb")
    assert sorted(row["verb"] for row in audit) == ["photo.upload", "upload.append", "upload.create"]
    assert (await patch(stage, at, len(CONTENT), b"")).status_code == 409


async def test_a_file_in_one_piece_is_not_copied(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))
    await patch(stage, at, 0, CONTENT)
    [photo] = await stage.photos()
    assert stage.stored() == [photo["storage_key"]] and await stage.count("object_trash") == 0


async def test_creation_with_upload_and_the_same_bytes_again(stage: Stage) -> None:
    whole = await create(stage, len(CONTENT), CONTENT)
    assert (whole.status_code, whole.headers["upload-offset"]) == (201, str(len(CONTENT)))
    part = await create(stage, len(CONTENT), CONTENT[:50_000])
    assert (part.status_code, part.headers["upload-offset"]) == (201, "50000")
    again = await patch(stage, address(stage, part), 50_000, CONTENT[50_000:])
    assert again.headers["lingxi-photo-id"] == whole.headers["lingxi-photo-id"]
    assert again.headers["lingxi-photo-created"] == "false"
    [photo] = await stage.photos()
    assert stage.stored() == [photo["storage_key"]]


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "md5"])
async def test_a_checksum_keeps_wrong_bytes_out(stage: Stage, algorithm: str) -> None:
    def checksum(content: bytes) -> str:
        return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, content).digest()).decode()}"

    at = await created(stage, len(CONTENT))
    wrong = await patch(stage, at, 0, CONTENT[:1000], **{"Upload-Checksum": checksum(b"other")})
    assert (wrong.status_code, wrong.json()["code"], await offset(stage, at)) == (460, 40001, 0)
    assert stage.stored() == []
    nothing = await patch(stage, at, 0, b"", **{"Upload-Checksum": checksum(b"other")})
    assert nothing.status_code == 460
    half = await patch(stage, at, 0, CONTENT[:1000], **{"Upload-Checksum": checksum(CONTENT[:1000])})
    assert (half.status_code, await offset(stage, at)) == (204, 1000)
    wrong = await patch(stage, at, 1000, CONTENT[1000:], **{"Upload-Checksum": checksum(CONTENT)})
    assert (wrong.status_code, await offset(stage, at), await stage.photos()) == (460, 1000, [])
    rest = await patch(stage, at, 1000, CONTENT[1000:], **{"Upload-Checksum": checksum(CONTENT[1000:])})
    assert rest.status_code == 204 and len(await stage.photos()) == 1


async def test_what_breaks_the_protocol_is_refused_and_changes_nothing(stage: Stage) -> None:
    async def post(**headers: str | None) -> tuple[int, str]:
        given = {**VERSION, "Upload-Length": "5000", **headers}
        sent = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
        response = await stage.client.post(f"albums/{stage.album_id}/uploads", headers=sent)
        assert response.headers["tus-resumable"] == "1.0.0"
        return response.status_code, response.json()["detail"]

    assert (await post(**{"Tus-Resumable": None}))[0] == 412
    assert (await post(**{"Tus-Resumable": "0.2.2"}))[0] == 412
    for length in (None, "-1", "1e3", "", "+5", "9" * 30):
        assert (await post(**{"Upload-Length": length}))[0] == 400
    assert await post(Upload_Length="0") == (422, "The file is empty.")
    status, detail = await post(Upload_Length="262145")
    assert status == 413 and "262144 bytes" in detail
    status, detail = await post(Upload_Length=None, Upload_Defer_Length="1")
    assert status == 400 and "creation-defer-length" in detail
    assert (await post(Upload_Concat="partial"))[0] == 400
    for text in (
        "filename YWJj,filename YWJj",
        "filename %%%",
        "a,,b",
        "filename YWJj=x",
    ):
        assert (await post(Upload_Metadata=text))[0] == 400, text
    assert await stage.count("uploads") == 0

    at = await created(stage, 5000)
    wrong_type = await stage.client.patch(at, content=b"x", headers={**VERSION, "Upload-Offset": "0"})
    assert wrong_type.status_code == 415
    no_offset = await stage.client.patch(at, content=b"x", headers={**VERSION, **BODY})
    assert no_offset.status_code == 400
    for wrong in (1, 4999, 5000, 9_000_000):
        assert (await patch(stage, at, wrong, b"")).status_code in (409, 413)
    assert (await patch(stage, at, 1, b"x")).status_code == 409
    assert (await patch(stage, at, 0, jpeg(1, 5001))).status_code == 413
    assert (await patch(stage, at, 0, b"x", **{"Upload-Checksum": "crc32 AAAA"})).status_code == 400
    assert (await patch(stage, at, 0, b"x", **{"Tus-Resumable": "2.0.0"})).status_code == 412
    assert (await stage.client.get(at)).status_code == 405
    assert (await offset(stage, at), stage.stored()) == (0, [])


async def test_head_repeats_length_metadata_and_expiry(stage: Stage) -> None:
    text = metadata(filename="a.jpg", filetype="image/jpeg") + ",empty"
    response = await create(stage, 5000, **{"Upload-Metadata": text})
    answer = await head(stage, address(stage, response))
    assert answer.headers["upload-metadata"] == text and answer.headers["upload-length"] == "5000"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["upload-expires"] == response.headers["upload-expires"]


async def test_a_file_of_no_accepted_type_is_refused_at_its_first_bytes(stage: Stage) -> None:
    text = b"only words " * 20_000
    at = await created(stage, len(text))
    refused = await patch(stage, at, 0, text[:70_000])
    assert (refused.status_code, refused.json()["code"]) == (415, 41501)
    assert (await head(stage, at)).status_code == 404 and stage.stored() == []
    late = await created(stage, 100)  # too few bytes at a time to be told before the end
    for start in range(0, 100, 50):
        answer = await patch(stage, late, start, text[start : start + 50])
    assert answer.status_code == 415 and (await head(stage, late)).status_code == 404
    assert await stage.photos() == [] and stage.stored() == []


async def test_termination_forgets_all_but_a_photo_that_is_there(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))
    await patch(stage, at, 0, CONTENT[:100_000])
    assert (await stage.client.delete(at, headers=VERSION)).status_code == 204
    assert (await head(stage, at)).status_code == 404 and stage.stored() == []
    assert (await stage.client.delete(at, headers=VERSION)).status_code == 404
    done = await create(stage, len(CONTENT), CONTENT)
    assert (await stage.client.delete(address(stage, done), headers=VERSION)).status_code == 204
    [photo] = await stage.photos()
    assert stage.stored() == [photo["storage_key"]]


async def test_the_method_may_be_overridden(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))

    async def post(method: str, content: bytes = b"", **headers: str) -> int:
        given = {**VERSION, "X-HTTP-Method-Override": method, **headers}
        return (await stage.client.post(at, content=content, headers=given)).status_code

    assert await post("PATCH", CONTENT[:10_000], **BODY, **{"Upload-Offset": "0"}) == 204
    assert await post("HEAD") == 200 and await offset(stage, at) == 10_000
    assert await post("PUT") == 405
    assert await post("DELETE") == 204 and (await head(stage, at)).status_code == 404


async def test_nobody_else_sees_an_upload(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))
    other_album = at.replace(str(stage.album_id), str(stage.world.ours.workspace_id))
    async with stage.api.client(stage.world.theirs.editor) as theirs:
        assert (await theirs.head(at, headers=VERSION)).status_code == 404
        assert (await patch(stage, at, 0, CONTENT, theirs)).status_code == 404
        assert (await theirs.delete(at, headers=VERSION)).status_code == 404
    async with stage.api.client(stage.world.ours.viewer) as viewer:
        assert (await patch(stage, at, 0, CONTENT, viewer)).status_code == 403
    async with stage.api.client() as nobody:
        assert (await patch(stage, at, 0, CONTENT, nobody)).status_code == 401
    assert (await head(stage, other_album)).status_code == 404
    assert await offset(stage, at) == 0


async def test_clients_that_append_at_once_never_mix_their_bytes(stage: Stage) -> None:
    """Whoever comes later waits, and then learns that the upload is elsewhere by now."""
    at = await created(stage, len(CONTENT))
    seen: set[int] = set()

    async def to_the_end() -> None:
        start = 0
        while start < len(CONTENT):
            seen.add((await patch(stage, at, start, CONTENT[start:])).status_code)
            start = await offset(stage, at)

    async with asyncio.timeout(60):
        await asyncio.gather(*(to_the_end() for _ in range(5)))
    assert seen <= {204, 409, 423} and 409 in seen, seen
    [photo] = await stage.photos()
    assert photo["sha256"] == hashlib.sha256(CONTENT).digest()
    assert stage.stored() == [photo["storage_key"]] and await stage.count("outbox_events") == 1


async def test_a_key_makes_one_upload(stage: Stage) -> None:
    key = {"Idempotency-Key": "camera-1"}
    first = await create(stage, 5000, **key)
    again = await create(stage, 5000, **key)
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert (await create(stage, 5001, **key)).json()["code"] == 40902
    assert await stage.count("uploads") == 1


async def test_a_long_request_is_made_durable_stretch_by_stretch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tus_routes, "STRETCH_SECONDS", 0.0)
    at = await created(stage, len(CONTENT))
    assert (await patch(stage, at, 0, CONTENT)).headers["lingxi-photo-created"] == "true"
    [photo] = await stage.photos()
    assert photo["sha256"] == hashlib.sha256(CONTENT).digest()
    assert await stage.count("object_trash") > 1  # the stretches that were joined
    assert stage.stored() == [photo["storage_key"]]


async def test_an_upload_has_an_end_of_pieces(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_uploads, "MAX_PARTS", 2)
    at = await created(stage, 5000)
    answers = [await patch(stage, at, start, CONTENT[start : start + 10]) for start in (0, 10, 20)]
    assert [answer.status_code for answer in answers] == [204, 204, 409]
    assert "pieces" in answers[2].json()["detail"] and await offset(stage, at) == 20


async def test_a_browsers_session_needs_our_origin(stage: Stage) -> None:
    async with stage.api.client(stage.world.ours.editor) as browser:
        assert (await browser.post("session")).status_code in (200, 201)
        del browser.headers["authorization"]
        headers = {**VERSION, "Upload-Length": "5000"}
        where = f"albums/{stage.album_id}/uploads"
        assert (await browser.post(where, headers=headers)).status_code == 403
        assert (await browser.post(stage.path, files={"f": ("a.jpg", CONTENT)})).status_code == 403
        browser.headers["origin"] = stage.api.url
        at = address(stage, await browser.post(where, headers=headers))
        assert (await browser.head(at, headers=VERSION)).headers["upload-offset"] == "0"
        assert (await browser.post(stage.path, files={"f": ("a.jpg", CONTENT)})).status_code == 201
