"""Share links: one album and nothing else, until they are revoked or have expired."""

from __future__ import annotations

import asyncio
import json
import re
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import pytest

from lingxi.api import album_schemas as schemas
from lingxi.api.rates import AddressRates
from tests.integration.albums.stage import EXCHANGE, NO_SUCH_THING, Stage, assert_not_found
from tests.integration.api.harness import batch

DOCUMENT = json.loads((Path(__file__).parents[3] / "openapi" / "openapi.json").read_text())
UNKNOWN = "01938f2e-4c00-7a31-9b5e-6f2d8c1a0000"
# What a guest reaches of the own album; everything else of the document has to be 404.
FOR_GUESTS = {
    ("get", "/api/v1/albums/{albumId}"),
    ("get", "/api/v1/albums/{albumId}/photos"),
    ("get", "/api/v1/albums/{albumId}/photos/{photoId}"),
    ("get", "/api/v1/albums/{albumId}/events"),
    ("get", "/api/v1/albums/{albumId}/photos/{photoId}/variants/{fileName}"),
    ("head", "/api/v1/albums/{albumId}/photos/{photoId}/variants/{fileName}"),
    ("get", "/api/v1/albums/{albumId}/photos/{photoId}/original"),
    ("head", "/api/v1/albums/{albumId}/photos/{photoId}/original"),
}
OPERATIONS = [
    (method, path)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if operation.get("security")  # what needs none is open to everybody
]


# Resumable uploads have a document of their own.
OPERATIONS += [
    ("post", "/api/v1/albums/{albumId}/uploads"),
    *((method, "/api/v1/albums/{albumId}/uploads/{uploadId}") for method in ("head", "patch", "delete")),
]


async def test_a_secret_is_shown_once_and_stored_hashed(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    album = await stage.album()
    link = await stage.share(album, lifetimeSeconds=3600)
    schemas.CreatedShareLink.model_validate(link)
    secret = link["secret"]
    assert len(secret) >= 43 and link["url"] == f"/s/{secret}"  # 256 bits
    listed = (await stage.editor.get(f"albums/{album}/shares")).json()
    assert listed == {"shares": [{name: link[name] for name in link if name not in ("secret", "url")}]}
    guest = await stage.open_link(secret)
    assert (await guest.get(f"albums/{album}")).status_code == 200
    stored = await stage.api.deps.pool.fetchrow("select s::text as row from share_links s")
    assert secret not in stored["row"] and secret.encode().hex() not in stored["row"]
    audit = await stage.api.deps.pool.fetch("select a::text as row from audit_log a")
    assert not any(secret in row["row"] for row in audit)
    logged = capfd.readouterr()
    assert "request_finished" in logged.err and secret not in logged.err + logged.out


async def test_secrets_stay_out_of_the_log_when_something_breaks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A traceback shows lines of code, and no values."""
    link = await stage.share(await stage.album())

    async def broken(*_: Any) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("lingxi.api.share_cookies.find_share_link", broken)
    monkeypatch.setattr("lingxi.api.auth.find_token", broken)
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{stage.api.url}{EXCHANGE}{link['secret']}")).status_code == 500
    assert (await stage.editor.get("albums")).status_code == 500
    logged = capfd.readouterr().err
    assert logged.count("nobody foresaw this") >= 2
    assert link["secret"] not in logged and stage.world.ours.editor not in logged


async def test_the_cookie_is_signed_http_only_and_strict(stage: Stage) -> None:
    album, other = await stage.album(), await stage.album()
    link = await stage.share(album)
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{stage.api.url}{EXCHANGE}{link['secret']}")
    (header,) = answer.headers.get_list("set-cookie")
    (cookie,) = SimpleCookie(header).values()
    assert cookie.key == "lingxi_share_" + album.replace("-", "")
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert link["secret"] not in header and 86_400 < int(cookie["max-age"]) <= 30 * 86_400
    for name, value, status in (
        (cookie.key, cookie.value, 200),
        (cookie.key, cookie.value[:-2] + "AA", 401),
        (cookie.key, "", 401),
        ("lingxi_share_" + other.replace("-", ""), cookie.value, 404),
        ("lingxi_session", cookie.value, 401),
    ):
        async with stage.api.client(Cookie=f"{name}={value}") as guest:
            where = other if status == 404 else album
            assert (await guest.get(f"albums/{where}")).status_code == status, name
    for secret in ("x", link["secret"][:-1], link["secret"].lower(), "é" * 20, "x" * 5000):
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{stage.api.url}{EXCHANGE}{secret}")
            assert answer.status_code == 404 and "set-cookie" not in answer.headers


async def test_a_guest_reaches_one_album_and_nothing_else(stage: Stage) -> None:
    """Every operation of the document, with ids that exist: 404, and the body of what does not exist."""
    album, other = await stage.album(originalsShared=True), await stage.album(originalsShared=True)
    photo, others = await stage.photo(album), await stage.photo(other)
    guest = await stage.guest(album)
    link = await stage.share(other)
    task = (await stage.editor.post("media-tasks", json=batch(1))).json()["id"]
    await stage.editor.put("objects/ours.bin", content=b"x")
    tokens = await stage.api.deps.pool.fetch("select id from tokens")
    ids = {
        "taskId": task, "itemId": task[:-1] + "1", "name": "ours.bin", "tokenId": str(tokens[0]["id"]),
        "workspaceId": str(stage.world.ours.workspace_id), "shareId": link["id"],
        "fileName": (await stage.picture(album, photo)).rpartition("/")[2],
    }  # fmt: skip
    foreign = {**ids, "albumId": other, "photoId": others}
    own = {**ids, "albumId": album, "photoId": photo}
    before = await stage.audit()
    tried = 0
    for method, path in OPERATIONS:
        for known in (own, foreign):
            if known is own and (method, path) in FOR_GUESTS:
                continue
            names = re.findall(r"{(\w+)}", path)
            address = path.format(**{name: known.get(name, UNKNOWN) for name in names})
            origin = {"Origin": stage.api.url, "Idempotency-Key": "k"}
            answer = await guest.request(method, stage.api.url + address, headers=origin)
            assert_not_found(answer)
            tried += 1
    assert tried > 60
    assert await stage.audit() == before, "and nothing was done"
    for method, path in FOR_GUESTS - {("get", "/api/v1/albums/{albumId}/events")}:
        answer = await guest.request(method, stage.api.url + path.format(**own))
        assert answer.status_code == 200, path
        for name, value in (("referrer-policy", "no-referrer"), ("x-robots-tag", "noindex")):
            assert answer.headers[name] == value


async def test_who_is_nobody_and_who_is_known_otherwise(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    address = await stage.picture(album, photo)
    guest = await stage.guest(album)
    (cookie,) = guest.cookies.jar
    pair = {"Cookie": f"{cookie.name}={cookie.value}"}
    paths = (f"albums/{album}", address)
    async with stage.api.client() as nobody:
        for path in paths:
            answer = await nobody.get(path)
            assert (answer.status_code, answer.json()["code"]) == (401, 40101)
    # A bearer token is meant where there is one; its holder is no guest.
    for token, status in ((stage.world.theirs.admin, 404), ("lx_bad", 401), (stage.world.operator, 403)):
        async with stage.api.client(token, **pair) as both:
            for path in paths:
                assert (await both.get(path)).status_code == status, token
    # A session of elsewhere, or one that has ended, does not keep a guest out.
    for token in (stage.world.theirs.viewer, stage.world.operator):
        async with stage.api.client(token) as client:
            session = (await client.post("session")).headers["set-cookie"].split(";")[0]
        async with stage.api.client(Cookie=f"{session}; {pair['Cookie']}") as both:
            for path in paths:
                assert (await both.get(path)).status_code == 200
        async with stage.api.client(Cookie=session) as alone:
            for path in paths:
                assert (await alone.get(path)).status_code == (403 if token == stage.world.operator else 404)
    await stage.api.deps.pool.execute("update tokens set revoked_at = now() where role = 'viewer'")
    stage.api.deps.albums.doubt_access()
    ended = session[:-2] + "AA"
    other = await stage.album()
    async with stage.api.client(Cookie=f"{ended}; {pair['Cookie']}") as both:
        for path in paths:
            assert (await both.get(path)).status_code == 200
            # Who had a session has to sign in again; nothing else is there for a guest.
            assert (await both.get(path.replace(album, other))).status_code == 401
            assert_not_found(await guest.get(path.replace(album, other)))


async def test_a_revoked_link_opens_nothing_any_more(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    link, other = await stage.share(album), await stage.share(album)
    guest, stays = await stage.open_link(link["secret"]), await stage.open_link(other["secret"])
    address = await stage.picture(album, photo)
    paths = (f"albums/{album}", f"albums/{album}/photos", f"albums/{album}/photos/{photo}", address)
    for path in paths:
        assert (await guest.get(path)).status_code == 200
    for _ in range(2):
        revoked = await stage.editor.delete(f"albums/{album}/shares/{link['id']}")
        assert revoked.status_code == 204, "again is the same"
    for path in paths:
        assert_not_found(await guest.get(path))
        assert (await stays.get(path)).status_code == 200
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{stage.api.url}{EXCHANGE}{link['secret']}")).status_code == 404
    assert_not_found(await stage.editor.delete(f"albums/{album}/shares/{UNKNOWN}"))
    assert_not_found(await stage.editor.delete(f"albums/{await stage.album()}/shares/{other['id']}"))
    first, second = (await stage.editor.get(f"albums/{album}/shares")).json()["shares"]
    assert first["revokedAt"] and second["revokedAt"] is None


async def test_a_link_ends_with_its_time(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    link = await stage.share(album, lifetimeSeconds=60)
    guest = await stage.open_link(link["secret"])
    (cookie,) = guest.cookies.jar
    assert cookie.expires is not None and cookie.expires <= stage.api.deps.clock() + 61
    address = await stage.picture(album, photo)
    assert (await guest.get(address)).status_code == 200
    await stage.api.deps.pool.execute("update share_links set expires_at = now()")
    stage.api.deps.albums.doubt_access()
    assert_not_found(await guest.get(address))
    assert_not_found(await guest.get(f"albums/{album}"))
    for wrong in ({"lifetimeSeconds": 5}, {"lifetimeSeconds": "60"}, {"secret": "mine"}, []):
        answer = await stage.editor.post(f"albums/{album}/shares", json=wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, 40001)


async def test_a_revoked_link_ends_open_streams(stage: Stage) -> None:
    album = await stage.album()
    link, other = await stage.share(album), await stage.share(album)
    guest, stays = await stage.open_link(link["secret"]), await stage.open_link(other["secret"])
    async with (
        guest.stream("GET", f"albums/{album}/events") as ends,
        stays.stream("GET", f"albums/{album}/events") as goes_on,
    ):
        assert (ends.status_code, goes_on.status_code) == (200, 200)
        await stage.editor.delete(f"albums/{album}/shares/{link['id']}")
        stage.api.deps.hub.hint_access()
        async with asyncio.timeout(30):
            async for _ in ends.aiter_bytes():
                pass
        await stage.editor.patch(f"albums/{album}", json={"name": "still told"})
        async with asyncio.timeout(30):
            async for line in goes_on.aiter_lines():
                if "still told" in line:
                    break
    assert_not_found(await guest.get(f"albums/{album}/events"))


async def test_an_address_that_asks_too_often_has_to_wait(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    address = await stage.picture(album, photo)
    guest = await stage.guest(album)
    stage.api.app.state.share_requests = AddressRates(2, clock=lambda: 0.0)
    stage.api.app.state.share_exchanges = AddressRates(1, clock=lambda: 0.0)
    link = await stage.share(album)
    exchange = f"{stage.api.url}{EXCHANGE}{link['secret']}"
    answers = [
        await guest.get(path) for path in (f"albums/{album}", address, address, f"albums/{album}/photos")
    ]
    answers += [await guest.get(exchange), await guest.get(exchange)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429, 200, 429]
    for answer, seconds in ((answers[2], "30"), (answers[5], "60")):
        assert (answer.json()["code"], answer.headers["retry-after"]) == (42901, seconds)
    assert (await stage.editor.get(address)).status_code == 200, "members are not meant"


def test_rates_count_each_customer_and_forget_the_silent_ones() -> None:
    now = [0.0]
    rates = AddressRates(60, clock=lambda: now[0])
    assert [rates.wait_seconds("192.0.2.1") for _ in range(60)] == [0.0] * 60
    assert rates.wait_seconds("192.0.2.1") == 1.0
    assert rates.wait_seconds("::ffff:192.0.2.1") == 1.0, "the same address in another notation"
    assert rates.wait_seconds("192.0.2.2") == 0.0
    now[0] = 1.0
    assert (rates.wait_seconds("192.0.2.1"), rates.wait_seconds("192.0.2.1")) == (0.0, 1.0)
    one = AddressRates(1, clock=lambda: 0.0)
    assert one.wait_seconds("2001:db8:1:2::1") == 0.0
    assert one.wait_seconds("2001:db8:1:2:ffff::9") == 60.0, "a /64 is one customer"
    assert one.wait_seconds("2001:db8:1:3::1") == 0.0
    for n in range(30_000):
        one.wait_seconds(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
    assert len(one._buckets) <= 20_000


def test_the_missing_body_is_the_documented_one() -> None:
    shown: dict[str, Any] = DOCUMENT["paths"]["/api/v1/albums/{albumId}"]["get"]["responses"]["404"]
    assert shown["content"]["application/problem+json"]["examples"]["40401"]["value"] == NO_SUCH_THING
