"""Names of files in forms, and the Idempotency-Key of a form."""

from __future__ import annotations

import asyncio

import pytest

from lingxi.observability import failpoints
from tests.integration.uploads.stage import Stage, file_part, form, jpeg, outcomes, part

KEY = {"Idempotency-Key": "wedding-1"}


async def test_any_name_is_kept_for_people_and_is_never_a_path(stage: Stage) -> None:
    names = [
        ("Ünal é 👩‍👩‍👧‍👦.jpg".encode(), "Ünal é 👩‍👩‍👧‍👦.jpg"),
        ("صورة\u202egpj.jpg".encode(), "صورةgpj.jpg"),
        (b"../../../../tmp/x.jpg", "x.jpg"),
        (b"a\x00b\x1b[31m.jpg", "ab[31m.jpg"),
        (b"x" * 4096 + b".jpg", "x" * 250 + "….jpg"),
        (b"", "unnamed"),
        (b"\xff\xfe.jpg", "��.jpg"),
    ]  # fmt: skip
    parts = [file_part(name, jpeg(n)) for n, (name, _) in enumerate(names)]
    parts.append(part(b"form-data; name=f; filename=a.jpg; filename*=UTF-8''%e2%82%ac%20rates.jpg", jpeg(90)))
    parts.append(part(b'form-data; name=f; filename*0="pie"; filename*1="ces.jpg"', jpeg(91)))
    response = await stage.post_raw(form(parts))
    assert response.status_code == 201, response.text
    expected = [kept for _, kept in names] + ["€ rates.jpg", "pieces.jpg"]
    assert [file["fileName"] for file in response.json()["files"]] == expected
    photos = await stage.photos()
    assert [photo["file_name"] for photo in photos] == expected
    assert stage.stored() == sorted(photo["storage_key"] for photo in photos)


async def test_a_key_replays_the_first_answer_and_does_nothing_twice(stage: Stage) -> None:
    files = [("a.jpg", jpeg(1)), ("b.txt", b"words"), ("c.jpg", jpeg(2))]
    first = await stage.post(*files, headers=KEY)
    counts = [await stage.count(t) for t in ("audit_log", "outbox_events", "photo_jobs", "photos")]
    again = await stage.post(*files, headers=KEY)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (201, first.content)
    assert again.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    assert [await stage.count(t) for t in ("audit_log", "outbox_events", "photo_jobs", "photos")] == counts
    assert len(stage.stored()) == 2
    for other in (
        files[:2],
        [*files[::-1]],
        [("renamed.jpg", jpeg(1)), *files[1:]],
        [files[0], ("b.txt", b"other"), files[2]],
        [("b.txt", b"words")],
    ):
        refused = await stage.post(*other, headers=KEY)
        assert (refused.status_code, refused.json()["code"]) == (409, 40902), other
    assert len(stage.stored()) == 2


async def test_a_key_at_once_is_one_upload(stage: Stage) -> None:
    answers = await asyncio.gather(*(stage.post(("a.jpg", jpeg(1)), headers=KEY) for _ in range(10)))
    assert {(answer.status_code, answer.content) for answer in answers} == {(201, answers[0].content)}
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 9
    assert (await stage.count("audit_log"), len(stage.stored())) == (1, 1)


async def test_a_refused_upload_leaves_its_key_free(stage: Stage) -> None:
    assert (await stage.post(("a.txt", b"words"), headers=KEY)).status_code == 415
    assert (await stage.post(("a.txt", b"words"), ("b.txt", b"words"), headers=KEY)).status_code == 200
    assert (await stage.post_raw(b"broken", **KEY)).status_code == 400
    assert (await stage.post(("a.jpg", jpeg(1)), headers=KEY)).status_code == 201
    bad = await stage.post(("a.jpg", jpeg(1)), headers={"Idempotency-Key": "x" * 256})
    assert (bad.status_code, bad.json()["code"]) == (400, 40002)


@pytest.mark.parametrize("point", ["api.before_insert", "api.after_insert", "api.before_commit"])
async def test_a_crash_before_the_commit_leaves_an_orphan_at_most(
    stage: Stage, point: str, tmp_path: object
) -> None:
    failpoints.arm(f"{point}=error", stage.folder.parent)
    try:
        assert (await stage.post(("a.jpg", jpeg(1)), headers=KEY)).status_code == 500
    finally:
        failpoints.disarm()
    assert [await stage.count(t) for t in ("photos", "outbox_events", "photo_jobs", "audit_log")] == [0] * 4
    response = await stage.post(("a.jpg", jpeg(1)), headers=KEY)
    assert (response.status_code, outcomes(response)) == (201, [("created", "")])
    [photo] = await stage.photos()
    assert photo["storage_key"] in stage.stored() and len(stage.stored()) <= 2
