"""Every route with every kind of caller: the documented refusal, and in the documented order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import httpx
import pytest

from lingxi.services.tokens import create_token
from tests.integration.albums.stage import NO_SUCH_THING
from tests.integration.api.harness import Api, World
from tests.tenancy.estate import Estate
from tests.tenancy.routes import CASES, RANK, Case
from tests.tenancy.test_across import ask, digest, nothings, signed_in, whole

Pool = asyncpg.Pool
BAD = ("nobody", "unknown", "expired", "revoked")
MEMBERS = ("viewer", "editor", "admin")
OUTSIDERS = ("operator", "worker")
BAD_KEY = {"Idempotency-Key": "a bad key"}


@pytest.fixture
async def callers(api: Api, world: World, pool: Pool) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """A client of each kind; `expired` and `revoked` were admins."""
    workspace = world.ours.workspace_id
    async with pool.acquire() as connection:
        _, worker = await create_token(connection, workspace_id=None, role="worker", name="w")
        ended, expired = await create_token(connection, workspace_id=workspace, role="admin", name="e")
        gone, revoked = await create_token(connection, workspace_id=workspace, role="admin", name="r")
        await connection.execute(
            "update tokens set created_at = now() - interval '2 h', expires_at = now() - interval '1 h' where id = $1",
            ended.id,
        )
        await connection.execute("update tokens set revoked_at = now() where id = $1", gone.id)
    tokens = {
        "nobody": None,
        "unknown": "lx_" + "A" * 43,
        "expired": expired,
        "revoked": revoked,
        "viewer": world.ours.viewer,
        "editor": world.ours.editor,
        "admin": world.ours.admin,
        "operator": world.operator,
        "worker": worker,
    }
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(api.client(token)) for name, token in tokens.items()}


def allowed(who: str, case: Case) -> bool:
    """May this caller use the route at all?"""
    if case.who in ("open", "link"):
        return True
    if who in BAD:
        return False
    if case.who == "steward":
        return who in ("admin", "operator")
    if case.who == "any":
        return True
    return RANK[who] >= RANK[case.who] if who in RANK and case.who in RANK else who == case.who


async def test_refusals(callers: dict[str, httpx.AsyncClient], pool: Pool) -> None:
    """401 before 403, and both before anything that the request says is looked at."""
    before = await digest(pool)
    for case in CASES:
        (ids, *_) = nothings(case) if case.names else ({},)
        for who, client in callers.items():
            if allowed(who, case):
                continue
            expected = (401, 40101) if who in BAD else (403, 40301)
            for headers in ({}, BAD_KEY, {"Content-Type": "text/nonsense"}):
                status, told, body = await ask(client, case, ids, headers)
                assert status == expected[0], (str(case), who, headers, status, body)
                if case.method != "HEAD":
                    assert json.loads(body)["code"] == expected[1], (str(case), who)
                assert ("www-authenticate" in dict(told)) == (status == 401)
    assert await digest(pool) == before, "who was refused changed something"


async def test_whoever_may_is_told_of_404_before_key_and_body(
    callers: dict[str, httpx.AsyncClient], ours: Estate
) -> None:
    for case in CASES:
        if case.who in ("open", "link", "any"):
            continue
        for who, client in callers.items():
            if not allowed(who, case):
                continue
            for ids in nothings(case) if case.names else ({},):
                if "." in ids.get("attemptId", ""):
                    continue  # an attempt that ended leaves nothing: what looks like one is superseded, 409
                if case.names and not (case.method == "PUT" and case.names == ["name"]):
                    for headers in ({}, BAD_KEY, {} if case.is_tus else {"Content-Type": "text/nonsense"}):
                        status, _, body = await ask(client, case, ids, headers)
                        assert status == 404, (str(case), who, ids, headers, status)
                        assert case.method == "HEAD" or json.loads(body) == NO_SUCH_THING
                elif case.takes_key:
                    told = whole(
                        await client.request(case.method, _url(client, case), headers=BAD_KEY, content=b"{")
                    )
                    assert (told[0], json.loads(told[2])["code"]) == (400, 40002), (str(case), who)


async def test_a_key_comes_before_the_body_and_the_state(
    callers: dict[str, httpx.AsyncClient], ours: Estate
) -> None:
    """On what is there: a bad key is told whatever the body, a bad body whatever the state."""
    editor = callers["editor"]
    for case in CASES:
        if not case.takes_key or not case.names:
            continue
        address = httpx.URL(f"{_origin(editor)}{case.address(**ours.ids)}")
        tus = {"Tus-Resumable": "0.1"} if case.is_tus else {}
        bad_key = await editor.request(case.method, address, headers=BAD_KEY | tus, content=b"{nonsense")
        assert bad_key.status_code == 400 and bad_key.json()["code"] == 40002, str(case)
        bad_body = await editor.request(case.method, address, headers=tus, content=b"{nonsense")
        assert bad_body.status_code in (400, 412, 415, 422), (str(case), bad_body.text)


async def test_an_outsider_learns_nothing_by_the_id(
    callers: dict[str, httpx.AsyncClient], ours: Estate
) -> None:
    """An operator's 403 is the same for what is there and for what is not."""
    for case in CASES:
        if case.who in RANK and case.names:
            (nothing, *_) = nothings(case)
            for who in OUTSIDERS:
                there = await ask(callers[who], case, ours.ids)
                assert there == await ask(callers[who], case, nothing), (str(case), who)
                assert there[0] == 403


async def test_a_session_changes_nothing_from_another_origin(
    api: Api, world: World, pool: Pool, ours: Estate
) -> None:
    """Every changing route by cookie, from a page of somebody else's, or from none."""
    async with signed_in(api, world.ours.admin) as admin:
        before = await digest(pool)
        for case in CASES:
            if case.method in ("GET", "HEAD", "OPTIONS") or case.who in ("open", "link"):
                continue
            for origin in (
                "https://evil.example",
                "null",
                "",
                api.url + ".evil.example",
                f"{api.url},{api.url}",
            ):
                status, _, body = await ask(admin, case, ours.ids, {"Origin": origin})
                assert status == 403, (str(case), origin, status, body)
        assert await digest(pool) == before
        assert (await admin.post("media-tasks", json={})).status_code == 422, "with our own origin it goes on"


def _origin(client: httpx.AsyncClient) -> str:
    return f"{client.base_url.scheme}://{client.base_url.netloc.decode()}"


def _url(client: httpx.AsyncClient, case: Case) -> str:
    return _origin(client) + case.path


def test_the_document_says_the_same(api: Api) -> None:
    """Where the document has an operation, it needs a token exactly where the table says so; share links too."""
    for case in CASES:
        if not (operation := case.operation):
            continue
        ways: list[dict[str, Any]] = operation.get("security") or []
        names = {name for way in ways for name in way}
        assert bool(names & {"token"}) == (case.who not in ("open", "link")), str(case)
        assert ("shareLink" in names) == case.shared, str(case)
