"""Uploads that go straight to a real S3 server and are then confirmed: objects and photos."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.api.harness import QUICK_LIMITS, Api, World, changed, open_api
from tests.integration.storage.places import Place, chunks_of, open_place
from tests.support.pictures import picture
from tests.support.waiting import wait_until

PHOTO = picture("jpeg", 60, 40)
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request, "s3", tmp_path) as opened:
        yield opened


@pytest.fixture
async def api(
    database_url: str, redis_url: str, world: World, tmp_path: Path, place: Place
) -> AsyncIterator[Api]:
    limits = changed(QUICK_LIMITS, max_object_bytes=20_000_000, max_photo_bytes=10_000_000)
    async with open_api(database_url, redis_url, tmp_path, limits=limits, storage=place.storage) as opened:
        yield opened


async def begin(editor: httpx.AsyncClient, name: str, data: bytes, **more: Any) -> dict[str, Any]:
    answer = await editor.post("object-uploads", json={"name": name, "sizeBytes": len(data), **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def send(signed: dict[str, Any], data: bytes) -> int:
    """By a client that has nothing but the answer."""
    async with httpx.AsyncClient() as nobody:
        headers = {
            k: v for k, v in signed["headers"].items() if k != "Content-Length"
        }  # it is that of the data
        answer = await nobody.request(signed["method"], signed["url"], content=data, headers=headers)
        return answer.status_code


async def confirm(client: httpx.AsyncClient, signed: dict[str, Any]) -> httpx.Response:
    return await client.post(f"object-uploads/{signed['id']}/confirm")


async def test_an_object_goes_straight_to_storage_and_is_confirmed(
    editor: httpx.AsyncClient, pool: Any, place: Place
) -> None:
    data = os.urandom(9_000_000)
    signed = await begin(editor, "shoot/灵犀 1.bin", data)
    assert (await confirm(editor, signed)).status_code == 409  # nothing has arrived
    assert await send(signed, data) == 200
    assert (await editor.get("objects/shoot/灵犀 1.bin")).status_code == 404  # not before it is confirmed
    done = await confirm(editor, signed)
    assert done.status_code == 201, done.text
    made = done.json()
    assert made["photo"] is None
    assert (made["object"]["size"], made["object"]["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert (await editor.get("objects/shoot/灵犀 1.bin")).content == data
    again = await confirm(editor, signed)
    assert (again.status_code, again.json()) == (200, made)
    assert len(await place.everything()) == 1  # what arrived is gone, the copy is there
    assert await pool.fetchval("select count(*) from audit_log where verb = 'object.put'") == 1


async def test_what_is_written_after_the_confirmation_changes_nothing(
    editor: httpx.AsyncClient, place: Place
) -> None:
    """The address is good for a quarter of an hour."""
    signed = await begin(editor, "x", b"first")
    assert await send(signed, b"first") == 200
    assert (await confirm(editor, signed)).status_code == 201
    assert await send(signed, b"other") == 200
    assert (await editor.get("objects/x")).content == b"first"
    assert (await confirm(editor, signed)).status_code == 200
    assert (await editor.get("objects/x")).content == b"first"


async def test_a_photo_goes_straight_to_storage_and_is_published_once(
    editor: httpx.AsyncClient, pool: Any, place: Place
) -> None:
    album = (await editor.post("albums", json={"name": "Wedding"})).json()["id"]
    signed = await begin(editor, "IMG_1.jpg", PHOTO, albumId=album)
    assert await send(signed, PHOTO) == 200
    answers = await asyncio.gather(*(confirm(editor, signed) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 201]
    assert len({answer.json()["photo"]["id"] for answer in answers}) == 1
    assert answers[0].json()["photo"]["fileName"] == "IMG_1.jpg"
    assert await pool.fetchval("select count(*) from outbox_events where type = 'photo.uploaded'") == 1
    second = await begin(editor, "IMG_2.jpg", PHOTO, albumId=album)
    assert await send(second, PHOTO) == 200
    same = await confirm(editor, second)
    assert (same.status_code, same.json()["photo"]["id"]) == (200, answers[0].json()["photo"]["id"])
    assert len(await place.everything()) == 1


@pytest.mark.parametrize("album", [True, False])
async def test_what_another_confirmation_removed_is_answered_as_it_was(
    editor: httpx.AsyncClient, place: Place, monkeypatch: pytest.MonkeyPatch, album: bool
) -> None:
    """The second knew of no confirmation when it began, and finds nothing under the address any more."""
    more = {"albumId": (await editor.post("albums", json={"name": "A"})).json()["id"]} if album else {}
    signed = await begin(editor, "IMG_1.jpg", PHOTO, **more)
    assert await send(signed, PHOTO) == 200
    came, goes_on, real = asyncio.Event(), asyncio.Event(), place.storage.open

    async def held(key: str, *args: Any, **options: Any) -> Any:
        came.set()
        await goes_on.wait()
        return await real(key, *args, **options)

    monkeypatch.setattr(place.storage, "open", held)
    late = asyncio.create_task(confirm(editor, signed))
    await came.wait()
    monkeypatch.setattr(place.storage, "open", real)
    first = await confirm(editor, signed)
    goes_on.set()
    second = await late
    assert (first.status_code, second.status_code) == (201, 200), second.text
    assert first.json() == second.json()


async def test_other_bytes_under_the_address_make_no_second_photo(
    editor: httpx.AsyncClient, pool: Any, place: Place
) -> None:
    """Two confirmations have read different bytes, and both come to commit."""
    album = (await editor.post("albums", json={"name": "A"})).json()["id"]
    one, other = (PHOTO[:2] + b"\xff\xfe\x00\x03" + comment + PHOTO[2:] for comment in (b"1", b"2"))
    signed = await begin(editor, "IMG_1.jpg", one, albumId=album)
    assert await send(signed, one) == 200
    async with pool.acquire() as holder, holder.transaction():
        await holder.execute("select from direct_uploads where id = $1 for update", signed["id"])
        first = asyncio.create_task(confirm(editor, signed))
        await wait_until(lambda: waiting(pool, 1))
        assert await send(signed, other) == 200
        second = asyncio.create_task(confirm(editor, signed))
        await wait_until(lambda: waiting(pool, 2))
    answers = [await first, await second]
    assert [answer.status_code for answer in answers] == [201, 200], answers[1].text
    assert answers[0].json() == answers[1].json()
    assert (await editor.get(f"albums/{album}/photos")).json()["photos"] == [answers[0].json()["photo"]]
    assert len(await place.everything()) == 1


async def waiting(pool: Any, count: int) -> bool:
    """So many wait for a lock."""
    query = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    return bool(await pool.fetchval(query) == count)


@pytest.mark.parametrize(
    ("data", "code"), [(b"no photo at all", 41501), (b"%PDF-1.7 " + bytes(200), 41501), (b"", 40001)]
)
async def test_what_is_no_photo_is_refused_and_leaves_nothing(
    editor: httpx.AsyncClient, pool: Any, place: Place, data: bytes, code: int
) -> None:
    album = (await editor.post("albums", json={"name": "Wedding"})).json()["id"]
    signed = await begin(editor, "IMG_1.jpg", data, albumId=album)
    assert await send(signed, data) == 200
    assert (await confirm(editor, signed)).json()["code"] == code
    assert await pool.fetchval("select count(*) from photos") == 0
    assert len(await place.everything()) == 1  # what arrived waits for its end


async def test_bytes_that_are_not_the_announced_ones_are_refused(
    editor: httpx.AsyncClient, place: Place
) -> None:
    signed = await begin(editor, "x", b"12345", sha256=hashlib.sha256(b"12345").hexdigest())
    assert await send(signed, b"123456") == 403  # of another size: the server refuses it
    assert await send(signed, b"54321") == 200
    answer = await confirm(editor, signed)
    assert (answer.status_code, answer.json()["code"]) == (409, 40901)
    assert "SHA-256" in answer.json()["detail"]
    assert await send(signed, b"12345") == 200
    assert (await confirm(editor, signed)).status_code == 201


async def test_limits_are_told_before_anything_is_sent(editor: httpx.AsyncClient) -> None:
    answer = await editor.post("object-uploads", json={"name": "x", "sizeBytes": 20_000_001})
    assert (answer.status_code, answer.json()["code"]) == (413, 41301)
    assert "20000000 bytes" in answer.json()["detail"]
    album = (await editor.post("albums", json={"name": "Wedding"})).json()["id"]
    photo = await editor.post("object-uploads", json={"name": "x", "sizeBytes": 10_000_001, "albumId": album})
    assert "10000000 bytes" in photo.json()["detail"]


async def test_an_object_of_that_name_with_other_bytes_is_a_conflict(
    editor: httpx.AsyncClient, place: Place
) -> None:
    await editor.put("objects/x", content=b"there")
    signed = await begin(editor, "x", b"other")
    assert await send(signed, b"other") == 200
    answer = await confirm(editor, signed)
    assert (answer.status_code, answer.json()["code"]) == (409, 40901)
    assert (await editor.get("objects/x")).content == b"there"
    assert len(await place.everything()) == 2


async def test_uploads_belong_to_their_workspace(api: Api, world: World, editor: httpx.AsyncClient) -> None:
    signed = await begin(editor, "x", b"12345")
    album = (await editor.post("albums", json={"name": "Wedding"})).json()["id"]
    async with api.client(world.theirs.editor) as theirs:
        missing = await theirs.post(f"object-uploads/{UNKNOWN}/confirm")
        foreign = await confirm(theirs, signed)
        assert (foreign.status_code, foreign.content) == (404, missing.content)
        body = {"name": "x", "sizeBytes": 5, "albumId": album}
        assert (await theirs.post("object-uploads", json=body)).content == missing.content
    async with api.client(world.ours.viewer) as viewer:
        assert (await viewer.post("object-uploads", json={"name": "x", "sizeBytes": 5})).status_code == 403
        assert (await confirm(viewer, signed)).status_code == 403


async def test_a_large_object_that_is_there_is_no_reason_to_read_it(
    editor: httpx.AsyncClient, place: Place
) -> None:
    """A server that lets more arrive than was signed does no harm: what is too large is refused when it is confirmed."""
    signed = await begin(editor, "x", b"12345")
    key = signed["url"].partition("/incoming/")[2].partition("?")[0]
    await place.storage.put(chunks_of(bytes(20_000_001)), max_bytes=1 << 30, key=f"incoming/{key}")
    answer = await confirm(editor, signed)
    assert (answer.status_code, answer.json()["code"]) == (413, 41301)
    assert len(await place.everything()) == 1
