"""Media registered by key and links without a token: over HTTP, on a folder and on a real S3 server."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lingxi.services.object_prefixes import allow_prefix, forbid_prefix
from lingxi.storage import S3Access, open_storage
from tests.integration.api.harness import QUICK_LIMITS, Api, World, batch, changed, open_api
from tests.integration.storage.places import BucketPlace, FolderPlace, Place, open_place
from tests.support.pictures import picture

PHOTO = picture("jpeg", 60, 40)


@pytest.fixture(params=["local", "s3"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request, request.param, tmp_path / "objects") as opened:
        yield opened


@pytest.fixture
async def api(
    database_url: str, redis_url: str, world: World, tmp_path: Path, place: Place
) -> AsyncIterator[Api]:
    async with open_api(database_url, redis_url, tmp_path, storage=place.storage) as opened:
        yield opened


@pytest.fixture
async def allowed(pool: Any, world: World, place: Place) -> str:
    """A folder of media that our workspace may register, with one in it."""
    folder = "archive/" if isinstance(place, FolderPlace) else f"beside-{place.prefix}/"
    async with pool.acquire() as connection:
        await allow_prefix(connection, world.ours.workspace_id, folder)
    place.beside(f"{folder}Müller & Söhne/照片 1.jpg", PHOTO)
    return folder


# ── media that are there already ────────────────────────────────────────────────────────────────────────
async def test_media_are_registered_and_stay_where_they_are(
    editor: httpx.AsyncClient, pool: Any, allowed: str, place: Place
) -> None:
    key = f"{allowed}Müller & Söhne/照片 1.jpg"
    made = await editor.post("objects", json={"name": "shoot/1.jpg", "mediaKey": key})
    assert made.status_code == 201, made.text
    expected = ("shoot/1.jpg", len(PHOTO), hashlib.sha256(PHOTO).hexdigest(), "image/jpeg")
    body = made.json()
    assert (body["name"], body["size"], body["sha256"], body["contentType"]) == expected
    assert made.headers["location"] == "/api/v1/objects/shoot/1.jpg"
    assert (await editor.get("objects/shoot/1.jpg")).content == PHOTO
    assert (await editor.post("objects", json={"name": "shoot/1.jpg", "mediaKey": key})).status_code == 200
    twice = await editor.post("objects", json={"name": "another name", "mediaKey": key})
    assert twice.status_code == 201
    verbs = await pool.fetch("select verb from audit_log where verb = 'object.register'")
    assert len(verbs) == 3
    assert await place.everything() == []  # nothing was copied


async def test_what_is_not_allowed_answers_as_what_is_not_there(
    editor: httpx.AsyncClient, api: Api, world: World, pool: Any, allowed: str, place: Place
) -> None:
    put = await editor.put("objects/mine", content=b"mine")
    assert put.status_code == 201
    own_key = await pool.fetchval("select storage_key from objects")
    place.beside("elsewhere.jpg", PHOTO)
    place.beside(f"{allowed[:-1]}x/1.jpg", PHOTO)
    tries = [
        f"{allowed}missing.jpg",
        "elsewhere.jpg",
        f"{allowed[:-1]}x/1.jpg",
        f"{allowed}../elsewhere.jpg",
        f"/{allowed}a",
        own_key,
        f"objects/{own_key}",
        "objects/../../../etc/passwd",
    ]
    answers = [await editor.post("objects", json={"name": "x", "mediaKey": key}) for key in tries]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    async with api.client(world.theirs.editor) as theirs:
        key = f"{allowed}Müller & Söhne/照片 1.jpg"
        answer = await theirs.post("objects", json={"name": "x", "mediaKey": key})
        assert (answer.status_code, answer.content) == (404, answers[0].content)
    async with pool.acquire() as connection:
        assert await forbid_prefix(connection, world.ours.workspace_id, allowed)
    assert (await editor.post("objects", json={"name": "x", "mediaKey": key})).status_code == 404


@pytest.mark.parametrize("place", ["s3"], indirect=True)
async def test_our_own_objects_cannot_be_registered(
    editor: httpx.AsyncClient, pool: Any, world: World, place: Place
) -> None:
    """Whatever an operator has allowed: they may be another workspace's."""
    assert isinstance(place, BucketPlace)  # in a folder, media lie in a folder of their own
    await editor.put("objects/mine", content=b"mine")
    async with pool.acquire() as connection:
        await allow_prefix(connection, world.ours.workspace_id, f"{place.prefix}/objects/")
    key = await pool.fetchval("select storage_key from objects")
    answer = await editor.post("objects", json={"name": "x", "mediaKey": f"{place.prefix}/objects/{key}"})
    assert answer.status_code == 404


@pytest.mark.parametrize("place", ["local"], indirect=True)
@pytest.mark.parametrize(
    "body", [{}, {"name": "x"}, {"name": "../x", "mediaKey": "a"}, {"name": "x", "mediaKey": ""}]
)
async def test_bad_registrations_are_refused(editor: httpx.AsyncClient, body: dict[str, Any]) -> None:
    answer = await editor.post("objects", json=body)
    assert (answer.status_code, answer.json()["code"]) in ((422, 40001), (400, 40001))


# ── links ────────────────────────────────────────────────────────────────────────────────────────────────
async def _fetch(api: Api, url: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=api.url) as nobody:
        return await nobody.get(url, headers=headers)


async def test_a_link_opens_without_a_token_and_as_an_attachment(
    api: Api, world: World, editor: httpx.AsyncClient
) -> None:
    await editor.put("objects/a/灵犀.html", content=b"<script>alert(1)</script>")
    async with api.client(world.ours.viewer) as viewer:
        made = await viewer.post("object-links", json={"name": "a/灵犀.html", "lifetimeSeconds": 60})
    assert made.status_code == 200, made.text
    answer = await _fetch(api, made.json()["url"])
    assert answer.content == b"<script>alert(1)</script>"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "%E7%81%B5%E7%8A%80.html" in answer.headers["content-disposition"]
    assert answer.headers["content-type"] == "application/octet-stream"
    part = await _fetch(api, made.json()["url"], Range="bytes=1-6")
    assert (part.status_code, part.content) == (206, b"script")
    missing = await editor.post("object-links", json={"name": "missing"})
    assert missing.status_code == 404
    async with api.client(world.theirs.editor) as theirs:
        foreign = await theirs.post("object-links", json={"name": "a/灵犀.html"})
        assert (foreign.status_code, foreign.content) == (404, missing.content)


@pytest.mark.parametrize("place", ["local"], indirect=True)
async def test_links_of_a_folder_are_signed_by_us(
    api: Api, editor: httpx.AsyncClient, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await editor.put("objects/x", content=b"bytes")
    url = (await editor.post("object-links", json={"name": "x", "lifetimeSeconds": 60})).json()["url"]
    answer = await _fetch(api, url)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    changed = url[:-3] + ("AAA" if url[-3:] != "AAA" else "BBB")
    for bad in (changed, url + "A", "/api/v1/signed-objects/x", url[: len(url) // 2]):
        refused = await _fetch(api, bad)
        assert (refused.status_code, refused.json()["code"]) == (401, 40101)
    config = api.deps.config
    for keys, status in (((b"n" * 32, *config.secret_keys), 200), ((b"n" * 32,), 401)):
        object.__setattr__(config, "secret_keys", keys)  # a rotation, and its end
        assert (await _fetch(api, url)).status_code == status
    object.__setattr__(config, "secret_keys", (*config.secret_keys,))
    late = (await editor.post("object-links", json={"name": "x", "lifetimeSeconds": 60})).json()["url"]
    assert (await _fetch(api, late)).status_code == 200
    now = api.deps.clock()
    object.__setattr__(api.deps, "clock", lambda: now + 61)
    assert (await _fetch(api, late)).status_code == 401


# ── straight to storage ─────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("place", ["local"], indirect=True)
async def test_a_folder_takes_no_direct_uploads_and_says_so(editor: httpx.AsyncClient, place: Place) -> None:
    answer = await editor.post("object-uploads", json={"name": "x", "sizeBytes": 5})
    assert (answer.status_code, answer.json()["code"]) == (409, 40901)
    assert "send the bytes to the API" in answer.json()["detail"]


# ── storage that is away ────────────────────────────────────────────────────────────────────────────────
async def test_a_bucket_that_is_away_is_told_and_stops_nothing_else(
    database_url: str, redis_url: str, world: World, tmp_path: Path
) -> None:
    access = S3Access("http://127.0.0.1:9", "us-east-1", "key", "secret", timeout_seconds=1.0)
    away = open_storage("s3://media", access)
    limits = changed(QUICK_LIMITS, max_object_bytes=20_000_000)
    async with (
        open_api(database_url, redis_url, tmp_path, storage=away, limits=limits) as api,
        api.client(world.ours.editor) as editor,
    ):
        answers = [
            await editor.put("objects/x", content=b"bytes"),
            await editor.put("objects/large", content=bytes(9 << 20)),
        ]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (500, 50001)
            assert answer.json()["detail"] == "Object storage cannot serve now; try again later."
        assert (await editor.get("objects/x")).status_code == 404
        assert (await editor.post("media-tasks", json=batch())).status_code == 202
        assert (await editor.get("health/ready")).status_code == 200
        assert (await editor.post("object-uploads", json={"name": "x", "sizeBytes": 5})).status_code == 201
