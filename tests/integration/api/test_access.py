"""Tokens, roles, sessions, workspaces; and what is another's is as if it were not there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.albums.stage import Stage
from tests.integration.api.harness import Api, World, batch, row_counts

UNKNOWN = "01938f2e-4c00-7a31-9b5e-6f2d8c1a0000"
DOCUMENT = json.loads((Path(__file__).parents[3] / "openapi" / "openapi.json").read_text())


# ── the same answer for unknown and for another workspace's ──────────────────────────────────────────────
ROUTES_WITH_AN_ID = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if "{" in path
    and operation.get("security")
    and not {"workspaceId", "queue", "boot", "attemptId"}
    & set(path.replace("}", "{").split("{"))  # operators' and workers'
    and not (method == "put" and "{name}" in path)
]


async def test_anothers_id_is_answered_like_an_unknown_one(api: Api, world: World) -> None:
    """Byte for byte, headers too, for every operation of the document that takes an id."""
    async with api.client(world.theirs.admin) as theirs, api.client(world.ours.admin) as ours:
        stage = Stage(api, World(world.theirs, world.ours, world.operator), theirs)
        task = (await theirs.post("media-tasks", json=batch(2))).json()["id"]
        await theirs.put("objects/theirs.bin", content=b"x")
        album = await stage.album()
        photo = await stage.photo(album)
        foreign = {
            "taskId": task,
            "tokenId": (await theirs.get("tokens")).json()["tokens"][0]["id"],
            "name": "theirs.bin",
            "albumId": album,
            "photoId": photo,
            "fileName": (await stage.picture(album, photo)).rpartition("/")[2],
            "shareId": (await stage.share(album))["id"],
        }
        before = await stage.audit()
        for method, path in ROUTES_WITH_AN_ID:
            names = re.findall(r"{(\w+)}", path)
            nothing = {"name": "nothing.bin", "fileName": "nothing.jpg"}
            answers = []
            for ids in (
                foreign,
                {},  # unknown
                dict.fromkeys(set(names) - {"name"}, "no-uuid"),
                {"taskId": task[:-4] + "0001"},  # an item's id is no task's
                {**foreign, "albumId": UNKNOWN},
            ):
                address = path.format(**{name: ids.get(name, nothing.get(name, UNKNOWN)) for name in names})
                answer = await ours.request(method, api.url + address, headers={"Idempotency-Key": "bad key"})
                del answer.headers["x-request-id"], answer.headers["date"]
                answers.append((answer.status_code, sorted(answer.headers.items()), answer.content))
                if names[0] != "albumId" and len(answers) == 4:
                    break
            assert answers[0][0] == 404, (method, path)
            if method != "HEAD":
                assert json.loads(answers[0][2])["code"] == 40401
            assert answers.count(answers[0]) == len(answers), (method, path)
        assert await stage.audit() == before, "and nothing was done to it"


async def test_an_unknown_address_and_a_wrong_method(api: Api, world: World) -> None:
    async with api.client(world.ours.viewer) as client, api.client() as nobody:
        for who in (client, nobody):
            for path in ("nothing", "media-tasks/", "media-tasks/a/b/c", "../../etc/passwd"):
                answer = await who.get(path)
                assert (answer.status_code, answer.json()["code"]) == (404, 40401), path
        wrong = await client.delete("media-tasks")
        assert (wrong.status_code, wrong.json()["code"], wrong.headers["allow"]) == (405, 40501, "GET, POST")
        for method in ("OPTIONS", "PATCH"):  # of a workspace, but not of the list
            beside = await client.request(method, "workspaces/caps")
            assert (beside.status_code, beside.headers["allow"]) == (405, "GET")


# ── tokens and roles ─────────────────────────────────────────────────────────────────────────────────────
_NO_TOKEN_OR_A_BAD_ONE = [
    None,
    "",
    "Bearer",
    "Bearer nonsense",
    "Basic bHg6",
    "bearer lx_" + "A" * 43,
    "Bearer lx_" + "é" * 43,
    "Bearer " + "x" * 5000,
]


async def test_no_token_or_a_bad_one(api: Api) -> None:
    for header in _NO_TOKEN_OR_A_BAD_ONE:
        headers = [] if header is None else [(b"Authorization", header.encode())]
        async with httpx.AsyncClient(base_url=api.url + "/api/v1/") as client:
            for method, path in (
                ("GET", "media-tasks"),
                ("POST", "media-tasks"),
                ("GET", f"media-tasks/{UNKNOWN}/events"),
            ):
                answer = await client.request(method, path, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (401, 40101)
                assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_every_documented_operation_needs_a_token(api: Api) -> None:
    async with api.client() as nobody:
        for path, operations in DOCUMENT["paths"].items():
            for method, operation in operations.items():
                if operation["tags"] == ["Health"]:
                    continue
                answer = await nobody.request(method, api.url + path.replace("{", "").replace("}", ""))
                assert answer.status_code == 401, (method, path)


async def test_roles(api: Api, world: World) -> None:
    """What each role may do, in the order of the checks: 403 comes before 404, key and body."""
    tries = [
        ("GET", "media-tasks", "viewer"),
        ("GET", f"media-tasks/{UNKNOWN}", "viewer"),
        ("GET", f"media-tasks/{UNKNOWN}/items", "viewer"),
        ("GET", f"media-tasks/{UNKNOWN}/events", "viewer"),
        ("POST", f"media-tasks/{UNKNOWN}/stream-token", "viewer"),
        ("GET", "workspace", "viewer"),
        ("GET", "objects/x", "viewer"),
        ("POST", "media-tasks", "editor"),
        ("POST", f"media-tasks/{UNKNOWN}/cancel", "editor"),
        ("POST", f"media-tasks/{UNKNOWN}/retry-failed", "editor"),
        ("PUT", "objects/x", "editor"),
        ("GET", "albums", "viewer"),
        ("GET", f"albums/{UNKNOWN}", "viewer"),
        ("GET", f"albums/{UNKNOWN}/photos", "viewer"),
        ("GET", f"albums/{UNKNOWN}/photos/{UNKNOWN}", "viewer"),
        ("GET", f"albums/{UNKNOWN}/photos/{UNKNOWN}/timeline", "viewer"),
        ("GET", f"albums/{UNKNOWN}/photos/{UNKNOWN}/variants/x.jpg", "viewer"),
        ("GET", f"albums/{UNKNOWN}/photos/{UNKNOWN}/previews/x.jpg", "viewer"),
        ("GET", f"albums/{UNKNOWN}/photos/{UNKNOWN}/original", "editor"),
        ("GET", f"albums/{UNKNOWN}/shares", "viewer"),
        ("GET", f"albums/{UNKNOWN}/stats", "viewer"),
        ("GET", f"albums/{UNKNOWN}/duplicates", "viewer"),
        ("POST", f"albums/{UNKNOWN}/fingerprint", "editor"),
        ("POST", "albums", "editor"),
        ("PATCH", f"albums/{UNKNOWN}", "editor"),
        ("DELETE", f"albums/{UNKNOWN}", "editor"),
        ("POST", f"albums/{UNKNOWN}/reprocess", "editor"),
        ("POST", f"albums/{UNKNOWN}/shares", "editor"),
        ("DELETE", f"albums/{UNKNOWN}/shares/{UNKNOWN}", "editor"),
        ("DELETE", f"albums/{UNKNOWN}/photos/{UNKNOWN}", "editor"),
        ("POST", f"albums/{UNKNOWN}/photos/{UNKNOWN}/hide", "editor"),
        ("POST", f"albums/{UNKNOWN}/photos/{UNKNOWN}/show", "editor"),
        ("POST", f"albums/{UNKNOWN}/photos/{UNKNOWN}/recall", "editor"),
        ("GET", "tokens", "admin"),
        ("POST", "tokens", "admin"),
        ("DELETE", f"tokens/{UNKNOWN}", "admin"),
        ("GET", "workspaces", "operator"),
        ("GET", f"workspaces/{UNKNOWN}", "operator"),
        ("POST", "workspaces", "operator"),
    ]
    order = ["viewer", "editor", "admin"]
    tokens = {
        "viewer": world.ours.viewer,
        "editor": world.ours.editor,
        "admin": world.ours.admin,
        "operator": world.operator,
    }
    for role, token in tokens.items():
        async with api.client(token, **{"Idempotency-Key": "bad key"}) as client:
            for method, path, needed in tries:
                answer = await client.request(method, path, content=b"no json")
                if needed == "operator" or role == "operator":
                    allowed = needed == role
                else:
                    allowed = order.index(role) >= order.index(needed)
                assert (answer.status_code == 403) == (not allowed), (role, method, path, answer.status_code)
                if not allowed:
                    assert answer.json()["code"] == 40301


async def test_tokens_are_made_shown_once_and_revoked(api: Api, admin: httpx.AsyncClient, pool: Any) -> None:
    made = await admin.post("tokens", json={"name": "ingest", "role": "editor", "lifetimeSeconds": 3600.0})
    assert made.status_code == 201
    secret, token_id = made.json()["token"], made.json()["id"]
    listed = (await admin.get("tokens")).json()["tokens"]
    assert [token["name"] for token in listed] == ["viewer", "editor", "admin", "ingest"]
    assert secret not in json.dumps(listed)
    assert secret.encode() not in (
        await pool.fetchval("select secret_hash from tokens where id = $1", token_id)
    )
    async with api.client(secret) as ingest:
        assert (await ingest.get("media-tasks")).status_code == 200
        assert (await admin.delete(f"tokens/{token_id}")).status_code == 204
        assert (await ingest.get("media-tasks")).status_code == 401
        assert (await admin.delete(f"tokens/{token_id}")).status_code == 204
    expired = (await admin.post("tokens", json={"name": "old", "role": "viewer"})).json()
    await pool.execute("update tokens set expires_at = now() where id = $1", expired["id"])
    async with api.client(expired["token"]) as old:
        assert (await old.get("media-tasks")).status_code == 401


_BAD_TOKENS_ARE_REFUSED = [
    {},
    {"name": "x"},
    {"name": "", "role": "viewer"},
    {"name": "x", "role": "operator"},
    {"name": "x" * 101, "role": "viewer"},
    {"name": "x", "role": "viewer", "lifetimeSeconds": 1},
    {"name": "x", "role": "viewer", "more": 1},
    {"name": 5, "role": "viewer"},
    {"name": "x", "role": "viewer", "lifetimeSeconds": "60"},
    [],
    None,
]


async def test_bad_tokens_are_refused(admin: httpx.AsyncClient, pool: Any) -> None:
    for body in _BAD_TOKENS_ARE_REFUSED:
        before = await row_counts(pool)
        answer = await admin.post(
            "tokens", content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, 40001)
        assert await row_counts(pool) == before


async def test_an_operator_makes_a_workspace_and_sees_nothing_in_it(api: Api, world: World) -> None:
    async with api.client(world.operator) as operator:
        made = await operator.post("workspaces", json={"name": "studio"})
        assert made.status_code == 201
        assert made.headers["location"] == f"/api/v1/workspaces/{made.json()['id']}"
        again = await operator.post("workspaces", json={"name": "studio"})
        assert (again.status_code, again.json()["code"]) == (409, 40901)
        names = [w["name"] for w in (await operator.get("workspaces")).json()["workspaces"]]
        assert names == ["ours", "theirs", "studio"]
        one = await operator.get(f"workspaces/{made.json()['id']}")
        assert one.json()["name"] == "studio"
        assert (await operator.get(f"workspaces/{UNKNOWN}")).status_code == 404
        assert (await operator.get("workspaces/studio")).status_code == 404
    async with api.client(made.json()["adminToken"]["token"]) as first:
        assert (await first.get("workspace")).json()["id"] == made.json()["id"]
        assert (await first.get("media-tasks")).json() == {"tasks": [], "nextCursor": None}


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_session_reads_and_changes_only_with_our_origin(api: Api, world: World, pool: Any) -> None:
    async with api.client(world.ours.editor) as client:
        opened = await client.post("session")
    assert opened.status_code == 201
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and world.ours.editor not in cookie
    pair = {"Cookie": cookie.split(";")[0]}
    host = api.url.removeprefix("http://")
    async with api.client(**pair) as browser:
        assert (await browser.get("media-tasks")).status_code == 200
        for origin in (
            {},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://["},
            {"Origin": f"http://{host}.evil.example"},
        ):
            refused = await browser.post("media-tasks", json=batch(1), headers=origin)
            assert (refused.status_code, refused.json()["code"]) == (403, 40301)
        accepted = await browser.post("media-tasks", json=batch(1), headers={"Origin": f"http://{host}"})
        assert accepted.status_code == 202
        assert (await browser.post("session", headers={"Origin": f"http://{host}"})).status_code == 401
        ended = await browser.delete("session", headers={"Origin": f"http://{host}"})
        assert ended.status_code == 204
        assert 'lingxi_session=""' in ended.headers["set-cookie"]
    for forged in (cookie.split(";")[0][:-3] + "abc", "lingxi_session=", "lingxi_session=abc"):
        async with api.client(Cookie=forged) as browser:
            assert (await browser.get("media-tasks")).status_code == 401
    await pool.execute("update tokens set revoked_at = now() where role = 'editor'")
    async with api.client(**pair) as browser:
        assert (await browser.get("media-tasks")).status_code == 401


async def test_a_session_ends_with_its_time(api: Api, world: World) -> None:
    from lingxi.api.auth import Anyone, seal_session
    from lingxi.api.signing import Signer
    from tests.integration.api.harness import SECRET

    token = await api.deps.pool.fetchval(
        "select id from tokens where role = 'viewer' order by created_at limit 1"
    )
    caller = Anyone(token, "viewer", world.ours.workspace_id, by_session=False)
    for seconds, status in ((60, 200), (-1, 401)):
        cookie = seal_session(Signer([SECRET]), caller, api.deps.clock() + seconds)
        async with api.client(Cookie=f"lingxi_session={cookie}") as browser:
            assert (await browser.get("media-tasks")).status_code == status


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_stream_token_opens_its_own_task_only(api: Api, world: World, pool: Any) -> None:
    async with api.client(world.ours.editor) as editor, api.client() as nobody:
        one = (await editor.post("media-tasks", json=batch(1))).json()["id"]
        two = (await editor.post("media-tasks", json=batch(1))).json()["id"]
        for task in (one, two):
            await editor.post(f"media-tasks/{task}/cancel")
        token = (await editor.post(f"media-tasks/{one}/stream-token")).json()["token"]
        stream = await nobody.get(f"media-tasks/{one}/events", params={"token": token})
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "event: snapshot" in stream.text and "event: end" in stream.text
        for path, value in ((two, token), (one, token[:-3] + "abc"), (one, ""), ("no-uuid", token)):
            refused = await nobody.get(f"media-tasks/{path}/events", params={"token": value})
            assert (refused.status_code, refused.json()["code"]) == (401, 40101)
        await pool.execute("update tokens set revoked_at = now()")
        assert (await nobody.get(f"media-tasks/{one}/events", params={"token": token})).status_code == 401


async def test_events_resume_and_204(editor: httpx.AsyncClient) -> None:
    task = (await editor.post("media-tasks", json=batch(2))).json()["id"]
    cursor = (await editor.post(f"media-tasks/{task}/cancel")).json()["cursor"]
    path = f"media-tasks/{task}/events"
    assert (await editor.get(path, params={"lastEventId": str(cursor)})).status_code == 204
    replay = await editor.get(path, params={"lastEventId": str(cursor)}, headers={"Last-Event-ID": "0"})
    assert replay.status_code == 200 and replay.text.count("event: item\n") == 2
    assert "event: reset" in (await editor.get(path, headers={"Last-Event-ID": "99999"})).text


# ── audit ────────────────────────────────────────────────────────────────────────────────────────────────
async def test_every_change_is_audited_once_and_nothing_else(api: Api, world: World, pool: Any) -> None:
    async with (
        api.client(world.ours.admin, **{"X-Request-Id": "req-1"}) as admin,
        api.client(world.operator) as operator,
    ):
        task = (await admin.post("media-tasks", json=batch(1))).json()["id"]
        await admin.post(f"media-tasks/{task}/cancel")
        await admin.post(f"media-tasks/{task}/retry-failed")  # refused
        await admin.post("media-tasks", json={"type": "no:such"})  # refused
        await admin.put("objects/a.bin", content=b"1")
        await admin.put("objects/a.bin", content=b"2")  # refused
        token = (await admin.post("tokens", json={"name": "t", "role": "viewer"})).json()["id"]
        await admin.delete(f"tokens/{token}")
        await admin.post("session")
        await admin.get("media-tasks")
        await admin.post(f"media-tasks/{task}/stream-token")
        workspace = (await operator.post("workspaces", json={"name": "new"})).json()["id"]
    rows = await pool.fetch(
        "select a.*, t.role from audit_log a join tokens t on t.id = a.actor order by a.id"
    )
    assert [(row["verb"], row["target"], row["role"]) for row in rows] == [
        ("task.submit", f"task:{task}", "admin"),
        ("task.cancel", f"task:{task}", "admin"),
        ("object.put", "object:a.bin", "admin"),
        ("token.create", f"token:{token}", "admin"),
        ("token.revoke", f"token:{token}", "admin"),
        ("session.open", f"token:{rows[0]['actor']}", "admin"),
        ("workspace.create", f"workspace:{workspace}", "operator"),
    ]
    assert {row["request_id"] for row in rows[:-1]} == {"req-1"}
    assert {row["workspace_id"] for row in rows[:-1]} == {world.ours.workspace_id}


# ── request ids and headers ──────────────────────────────────────────────────────────────────────────────
async def test_request_ids_and_security_headers(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    async with api.client() as nobody:
        given = await nobody.get("media-tasks", headers={"X-Request-Id": "abc-1.2_3"})
        assert given.headers["x-request-id"] == "abc-1.2_3"
        for bad in ("a b", "x" * 65, "", "é", "<script>"):
            answer = await nobody.get("media-tasks", headers={"X-Request-Id": bad.encode()})
            assert answer.headers["x-request-id"] != bad and len(answer.headers["x-request-id"]) == 32
        assert given.headers["x-content-type-options"] == "nosniff"
        assert given.headers["referrer-policy"] == "no-referrer"
        assert given.headers["cache-control"] == "no-store"
        assert not [name for name in given.headers if name.startswith("access-control")]
        await nobody.get(
            "media-tasks",
            params={"token": "a-secret-in-the-query"},
            headers={"Authorization": "Bearer secret-2"},
        )
        await nobody.get("objects/private-name.jpg")
    log = "".join(capsys.readouterr())
    assert "request_finished" in log
    for secret in ("a-secret-in-the-query", "secret-2", "private-name"):
        assert secret not in log
