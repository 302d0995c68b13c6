"""Every route with the other workspace's ids: byte for byte the answer for an id that does not exist, and nothing was changed."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from tests.integration.albums.stage import NO_SUCH_THING
from tests.integration.api.harness import Api, World
from tests.tenancy.estate import GARBAGE, NOWHERE, UNKNOWN, Estate
from tests.tenancy.routes import CASES, Case, served

Pool = asyncpg.Pool
Answer = tuple[int, list[tuple[str, str]], bytes]
BY_ID = [case for case in CASES if case.names and case.who in ("viewer", "editor", "admin", "steward")]


def test_every_route_has_a_row(api: Api) -> None:
    """Whoever adds a route says here who may use it, and so has it tried by everything below."""
    from tests.tenancy.routes import PAGES

    routes = [route for route in api.app.router.routes if not hasattr(route, "original_router")]
    found = served([*api.app.state.routes, *routes])
    assert found == {str(case) for case in CASES} | PAGES


# ── ids in paths ─────────────────────────────────────────────────────────────────────────────────────────
async def test_ids_of_another_workspace(
    api: Api, world: World, pool: Pool, ours: Estate, theirs: Estate
) -> None:
    before = await digest(pool)
    async with api.client(world.ours.admin) as admin:
        for case in BY_ID:
            if case.method == "PUT" and case.names == ["name"]:
                continue  # a name is free in each workspace: below
            await same_as_nothing(admin, case, ours.ids, theirs.ids)
    assert await digest(pool) == before, "something was changed"


async def test_the_same_by_session_cookie(
    api: Api, world: World, pool: Pool, ours: Estate, theirs: Estate
) -> None:
    async with signed_in(api, world.ours.admin) as admin:
        before = await digest(pool)
        for case in BY_ID:
            if case.method != "PUT":
                for ids in mixtures(case, ours.ids, theirs.ids):
                    assert (await ask(admin, case, ids))[0] == 404, (str(case), ids)
        assert await digest(pool) == before


async def test_a_guest_reaches_one_album(api: Api, pool: Pool, ours: Estate, theirs: Estate) -> None:
    """With the cookie of our album's link: theirs, and all else that needs a token, is as if it were not there."""
    async with api.client() as guest:
        await guest.get(f"{api.url}/s/{ours.share_secret}")
        assert (await guest.get(f"albums/{ours.ids['albumId']}")).status_code == 200
        before = await digest(pool)
        for case in CASES:
            if case.who in ("open", "link"):
                continue
            tries = [*mixtures(case, ours.ids, theirs.ids), *nothings(case)]
            if not case.shared:
                tries.append(ours.ids)
            for ids in tries:
                status, _, body = await ask(guest, case, ids)
                assert status == 404, (str(case), ids, status)
                assert case.method == "HEAD" or json.loads(body) == NO_SUCH_THING
        assert await digest(pool) == before


async def test_an_objects_name_is_its_workspaces_own(
    api: Api, world: World, pool: Pool, theirs: Estate
) -> None:
    name = theirs.ids["name"]
    async with api.client(world.ours.admin) as admin, api.client(world.theirs.admin) as others:
        assert (await admin.put(f"objects/{name}", content=b"of theirs")).status_code == 201, "no 200, no 409"
        assert (await admin.get(f"objects/{name}")).content == b"of theirs"
        assert (await admin.put(f"objects/{name}", content=b"else")).status_code == 409
        assert (await others.get(f"objects/{name}")).content == b"of theirs"
    keys = await pool.fetch("select storage_key from objects where name = $1", name)
    assert len({row["storage_key"] for row in keys}) == 2, "bytes that two workspaces have are stored twice"


# ── ids in bodies and queries ────────────────────────────────────────────────────────────────────────────
async def test_ids_in_bodies(api: Api, world: World, pool: Pool, ours: Estate, theirs: Estate) -> None:
    before = await digest(pool)
    tries: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("object-links", {"name": theirs.ids["name"]}, {"name": "nothing"}),
        (
            "objects",
            {"name": "x", "mediaKey": "archive-of-theirs/a.jpg"},
            {"name": "x", "mediaKey": "nobodys/a.jpg"},
        ),
        (
            "object-uploads",
            {"name": "x", "sizeBytes": 4, "albumId": theirs.ids["albumId"]},
            {"name": "x", "sizeBytes": 4, "albumId": NOWHERE},
        ),
        (
            f"webhooks/{ours.ids['webhookId']}/replay",
            {"eventId": theirs.event_id},
            {"eventId": NOWHERE},
        ),
    ]
    async with api.client(world.ours.admin) as admin:
        for path, foreign, unknown in tries:
            answers = [whole(await admin.post(path, json=body)) for body in (foreign, unknown)]
            assert answers[0] == answers[1] and answers[0][0] == 404, path
            assert json.loads(answers[0][2]) == NO_SUCH_THING
    assert await digest(pool) == before


async def test_cursors_of_another_workspace(api: Api, world: World, ours: Estate, theirs: Estate) -> None:
    async with api.client(world.ours.admin) as admin, api.client(world.theirs.admin) as others:
        for (path, cursor), (their_path, theirs_cursor) in zip(
            ours.cursors.items(), theirs.cursors.items(), strict=True
        ):
            assert (await admin.get(path, params={"cursor": cursor, "limit": 1})).status_code == 200, path
            taken = await others.get(their_path, params={"cursor": theirs_cursor, "limit": 1})
            assert taken.status_code == 200, "good where it was made"
            foreign, garbage = [
                whole(await admin.get(path, params={"cursor": one})) for one in (theirs_cursor, "garbage")
            ]
            assert foreign == garbage and foreign[0] == 400, path
            assert json.loads(foreign[2])["code"] == 40001


async def test_listings_hold_ones_own(api: Api, world: World, ours: Estate, theirs: Estate) -> None:
    """No listing of ours names anything of theirs, in any field."""
    nobodys = ("fileName", "queue", "boot")  # the same for everybody
    secrets = [value for name, value in theirs.ids.items() if name not in nobodys] + [theirs.event_id]
    async with api.client(world.ours.admin) as admin:
        for case in CASES:
            if case.method == "GET" and case.who in ("viewer", "editor", "admin", "steward", "any"):
                if case.path.endswith("/events"):
                    continue  # an open stream; below
                answer = await admin.get(api.url + case.address(**ours.ids))
                assert answer.status_code in (200, 404), case  # a preview of what is published is a 404
                assert not [one for one in secrets if one in answer.text], case


# ── streams, links, sessions, keys ───────────────────────────────────────────────────────────────────────
async def test_stream_tokens(api: Api, ours: Estate, theirs: Estate) -> None:
    """A token opens the one stream that it names; for any other address it is as good as none."""
    kinds = [("media-tasks", "taskId", "stream_token"), ("albums", "albumId", "album_token")]
    async with api.client() as nobody:
        for kind, name, token in kinds:
            path = f"{kind}/{theirs.ids[name]}/events"
            refused = [
                whole(await nobody.get(at, params={"token": one}))
                for at, one in (
                    (path, getattr(ours, token)),
                    (f"{kind}/{ours.ids[name]}/events", getattr(theirs, token)),
                    (path, "garbage"),
                    (f"{kind}/{NOWHERE}/events", getattr(ours, token)),
                )
            ]
            assert refused.count(refused[0]) == 4 and refused[0][0] == 401, kind
        crossed = [
            await nobody.get(f"albums/{ours.ids['albumId']}/events", params={"token": ours.stream_token}),
            await nobody.get(f"media-tasks/{ours.ids['taskId']}/events", params={"token": ours.album_token}),
            await nobody.get(f"media-tasks/{ours.ids['taskId']}", params={"token": ours.stream_token}),
            await nobody.get(f"albums/{ours.ids['albumId']}", params={"token": ours.album_token}),
        ]
        assert {answer.status_code for answer in crossed} == {401}, (
            "a stream token opens events, and one's own only"
        )


async def test_object_links(api: Api, ours: Estate, theirs: Estate) -> None:
    """One link cannot be made into another's, nor a cursor or a session into a link."""
    async with api.client() as nobody:
        assert (await nobody.get(api.url + ours.object_link)).content == b"of ours"
        mine, other = ours.ids["token"], theirs.ids["token"]
        forged = [
            mine[:22] + other[22:],
            other[:22] + mine[22:],
            ours.cursors["media-tasks"],
            mine[:-2],
            "AAAA",
        ]
        for token in forged:
            answer = await nobody.get(f"signed-objects/{token}")
            assert answer.status_code == 401 and b"of theirs" not in answer.content


async def test_idempotency_keys(api: Api, world: World, pool: Pool, ours: Estate, theirs: Estate) -> None:
    """Their key is ours to use anew; with their address it is a 404, and no replay of what they were told."""
    key = {"Idempotency-Key": theirs.key}
    async with api.client(world.ours.admin) as admin:
        body = {"type": "demo:drill", "items": [{"ref": "r0", "input": {"durationMs": 0}}]}
        fresh = await admin.post("media-tasks", json=body, headers=key)
        assert fresh.status_code == 202 and "idempotent-replayed" not in fresh.headers
        refused = await admin.post(f"media-tasks/{theirs.ids['taskId']}/cancel", headers=key)
        assert refused.status_code == 404 and refused.json() == NO_SUCH_THING
    stored = await pool.fetch("select workspace_id from idempotency_keys where key = $1", theirs.key)
    assert {row["workspace_id"] for row in stored} == {world.ours.workspace_id, world.theirs.workspace_id}


async def test_forged_cookies(api: Api, ours: Estate, theirs: Estate) -> None:
    """What was signed for one purpose or album is none for another."""
    async with api.client() as guest:
        await guest.get(f"{api.url}/s/{ours.share_secret}")
        (cookie,) = guest.cookies.jar
        theirs_name = f"lingxi_share_{theirs.ids['albumId'].replace('-', '')}"
        for name, value in (
            (theirs_name, cookie.value),
            ("lingxi_session", cookie.value),
            ("lingxi_session", ours.cursors["media-tasks"]),
            (theirs_name, ours.ids["token"]),
        ):
            async with api.client(cookie=f"{name}={value}") as forger:
                answer = await forger.get(f"albums/{theirs.ids['albumId']}")
                assert answer.status_code in (401, 404), name
                assert (await forger.get("media-tasks")).status_code in (401, 404), name


# ── how it is tried ──────────────────────────────────────────────────────────────────────────────────────
def nothings(case: Case) -> Iterable[Mapping[str, str]]:
    """Ids that name nothing, and what is no id at all."""
    yield {name: UNKNOWN.get(name, NOWHERE) for name in case.names}
    if case.names != ["name"]:
        yield {name: GARBAGE.get(name, "no-id") for name in case.names}


def mixtures(case: Case, ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterable[Mapping[str, str]]:
    """Each way of filling the path with our ids and theirs that has one of theirs in it."""
    for choice in itertools.product((ours, theirs), repeat=len(case.names)):
        if theirs in choice:
            yield {name: one[name] for name, one in zip(case.names, choice, strict=True)}


async def same_as_nothing(
    client: httpx.AsyncClient, case: Case, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    """The address is asked in good order, with a bad key and with a broken body: always the same 404."""
    missing = [name for name in case.names if name not in theirs]
    assert not missing, f"{case}: tests/tenancy/estate.py makes nothing for {missing}"
    answers: dict[str, Answer] = {}
    for ids in (*nothings(case), *mixtures(case, ours, theirs)):
        answers[f"{ids}"] = await ask(client, case, ids)
        for more in (
            {"Idempotency-Key": "a bad key"},
            {"Content-Type": "text/nonsense"},
            {"Last-Event-ID": "x"},
        ):
            if case.is_tus and "Content-Type" in more:
                continue
            answers[f"{ids} {more}"] = await ask(client, case, ids, more)
    (first, *_) = answers.values()
    assert first[0] == 404, (str(case), first)
    if case.method != "HEAD":
        assert json.loads(first[2]) == NO_SUCH_THING, str(case)
    different = {key: answer for key, answer in answers.items() if answer != first}
    assert not different, (str(case), first, different)


async def ask(
    client: httpx.AsyncClient, case: Case, ids: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> Answer:
    request = case.request()
    told = {**request.pop("headers", {}), **(headers or {})}
    address = httpx.URL(f"{client.base_url.scheme}://{client.base_url.netloc.decode()}{case.address(**ids)}")
    async with client.stream(case.method, address, headers=told, **request) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, [], b"a stream"
        await answer.aread()
        return whole(answer)


def whole(answer: httpx.Response) -> Answer:
    """All of an answer that is not different each time."""
    headers = sorted((k, v) for k, v in answer.headers.items() if k not in ("x-request-id", "date"))
    return answer.status_code, headers, answer.content


async def digest(pool: Pool) -> dict[str, str]:
    """Of every row of every table."""
    tables = await pool.fetch(
        "select tablename t from pg_tables where schemaname = 'public' and tablename <> 'alembic_version'"
    )
    rows = "select md5(coalesce(string_agg(r::text, '\n' order by r::text), '')) from \"{}\" r"
    return {row["t"]: await pool.fetchval(rows.format(row["t"])) for row in tables}


@asynccontextmanager
async def signed_in(api: Api, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """A browser with the session of this token."""
    async with api.client(token) as bearer:
        cookie = (await bearer.post("session")).headers["set-cookie"].partition(";")[0]
    async with api.client(cookie=cookie, origin=api.url) as client:
        yield client


@pytest.mark.parametrize("case", [case for case in CASES if case.who == "link"], ids=str)
async def test_what_a_link_opens_needs_the_whole_of_it(api: Api, case: Case) -> None:
    async with api.client() as nobody:
        for ids in nothings(case):
            assert (await ask(nobody, case, ids))[0] == 401
