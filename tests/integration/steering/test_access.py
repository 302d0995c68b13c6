"""Tokens are rotated; workspaces are renamed, and disabled, so that nobody gets in and what was accepted is finished."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx

from lingxi.services.share_links import find_share_link
from lingxi.services.sign_in_links import use_sign_in_link
from lingxi.services.tokens import create_token, rotate_token
from lingxi.services.valid_grants import valid_grants
from tests.integration.api.harness import Api, World, batch
from tests.support.processes import run_lingxi
from tests.support.work import Work


async def works(api: Api, secret: str) -> bool:
    async with api.client(secret) as client:
        return (await client.get("workspace")).status_code == 200


async def test_a_token_is_rotated_with_and_without_overlap(
    api: Api, admin: httpx.AsyncClient, world: World, pool: Any
) -> None:
    new = {"name": "ingest", "role": "editor", "lifetimeSeconds": 86_400}
    first = (await admin.post("tokens", json=new)).json()
    answer = await admin.post(f"tokens/{first['id']}/rotate", json={"overlapSeconds": 600})
    second = answer.json()
    assert (answer.status_code, second["role"], second["name"]) == (201, "editor", "ingest")
    assert second["id"] != first["id"] and second["token"] != first["token"]
    assert await works(api, first["token"]) and await works(api, second["token"])
    lives = await pool.fetchrow(
        "select extract(epoch from max(expires_at) - clock_timestamp()) as new, "
        "extract(epoch from min(expires_at) - clock_timestamp()) as old from tokens where name = 'ingest'"
    )
    assert 86_300 < lives["new"] <= 86_400 and 500 < lives["old"] <= 600
    third = (await admin.post(f"tokens/{second['id']}/rotate")).json()
    assert not await works(api, second["token"]), "without an overlap it ends at once"
    assert await works(api, third["token"])
    assert (await admin.post(f"tokens/{second['id']}/rotate")).status_code == 409
    assert (await admin.post(f"tokens/{uuid4()}/rotate")).status_code == 404
    async with api.client(world.theirs.admin) as theirs:
        assert (await theirs.post(f"tokens/{third['id']}/rotate")).status_code == 404
    assert await works(api, third["token"])
    rows = await pool.fetch("select target from audit_log where verb = 'token.rotate' order by id")
    assert [row["target"] for row in rows] == [f"token:{first['id']}", f"token:{second['id']}"]


async def test_an_overlap_makes_no_token_live_longer(pool: Any, world: World) -> None:
    token = await pool.fetchval(
        "select id from tokens where workspace_id = $1 limit 1", world.ours.workspace_id
    )
    await pool.execute(
        "update tokens set expires_at = clock_timestamp() + interval '1 minute' where id = $1", token
    )
    before = await pool.fetchval("select expires_at from tokens where id = $1", token)
    assert await rotate_token(pool, token, overlap_seconds=3600)
    assert await pool.fetchval("select expires_at from tokens where id = $1", token) == before


async def test_nobody_gets_into_a_disabled_workspace_until_it_is_enabled(
    api: Api,
    world: World,
    operator: httpx.AsyncClient,
    editor: httpx.AsyncClient,
    admin: httpx.AsyncClient,
    pool: Any,
) -> None:
    album = (await editor.post("albums", json={"name": "A"})).json()["id"]
    share = (await editor.post(f"albums/{album}/shares", json={})).json()
    link = (await admin.post("session/links", json={})).json()["url"].rpartition("#")[2]
    session = (await editor.post("session")).headers["set-cookie"].split(";")[0]
    task = (await editor.post("media-tasks", json=batch(1))).json()["id"]
    token = await pool.fetchval(
        "select id from tokens where workspace_id = $1 limit 1", world.ours.workspace_id
    )
    grants = [token, ("share", UUID(share["id"]))]
    assert len(await valid_grants(pool, grants)) == 2
    assert await find_share_link(pool, share["secret"])
    async with api.client() as guest:
        assert (await guest.get("workspace", headers={"Cookie": session})).status_code == 200
    path = f"workspaces/{world.ours.workspace_id}"
    assert (await admin.post(f"{path}/disable")).status_code == 403
    assert (await operator.post(f"workspaces/{uuid4()}/disable")).status_code == 404
    disabled = await operator.post(f"{path}/disable")
    assert disabled.json()["disabledAt"] is not None
    assert (await operator.post(f"{path}/disable")).json() == disabled.json(), "again is the same"
    assert (await editor.get("workspace")).json()["code"] == 40101
    async with api.client() as nobody:
        assert (await nobody.get("workspace", headers={"Cookie": session})).status_code == 401
        assert await find_share_link(pool, share["secret"]) is None
        assert await use_sign_in_link(pool, link) is None
    assert await valid_grants(pool, grants) == set(), "open streams end"
    assert await works(api, world.theirs.viewer), "others go on"
    assert (await operator.get(path)).json()["disabledAt"] is not None
    assert await pool.fetchval("select status from media_tasks where id = $1", UUID(task)) == "queued"
    assert (await operator.post(f"{path}/enable")).json()["disabledAt"] is None
    assert (await editor.get("workspace")).status_code == 200
    assert len(await valid_grants(pool, grants)) == 2
    verbs = await pool.fetch("select verb from audit_log where verb like 'workspace.%' order by id")
    assert [row["verb"] for row in verbs] == ["workspace.disable", "workspace.disable", "workspace.enable"]


async def test_what_a_disabled_workspace_had_submitted_is_finished(
    pool: Any, database_url: str, redis_url: str
) -> None:
    work = await Work.begin(pool, database_url, redis_url)
    task = await work.submit({})
    await pool.execute("update workspaces set disabled_at = now()")
    async with work.dispatching(), work.worker():
        assert (await work.ended(task))["status"] == "succeeded"


async def test_a_workspace_is_renamed(operator: httpx.AsyncClient, world: World) -> None:
    path = f"workspaces/{world.ours.workspace_id}"
    assert (await operator.patch(path, json={"name": "studio"})).json()["name"] == "studio"
    assert (await operator.patch(path, json={"name": "studio"})).status_code == 200
    assert (await operator.patch(path, json={"name": "theirs"})).status_code == 409
    assert (await operator.patch(path, json={"name": ""})).status_code == 422


async def test_two_that_want_one_name_at_once(operator: httpx.AsyncClient, pool: Any) -> None:
    """The second waits for the first one's commit, and finds the name taken."""
    made = [(await operator.post("workspaces", json={"name": name})).json()["id"] for name in ("a", "b")]
    async with pool.acquire() as other, other.transaction():
        await other.execute("update workspaces set name = 'wanted' where id = $1", UUID(made[0]))
        second = asyncio.create_task(operator.patch(f"workspaces/{made[1]}", json={"name": "wanted"}))
        waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        async with asyncio.timeout(5):
            while not await other.fetchval(waiting):
                await asyncio.sleep(0.01)
    answer = await second
    assert (answer.status_code, answer.json()["code"]) == (409, 40901)


async def test_a_disabled_workspaces_signed_addresses_open_nothing(
    api: Api, editor: httpx.AsyncClient, operator: httpx.AsyncClient, world: World
) -> None:
    await editor.put("objects/x", content=b"x")
    url = api.url + (await editor.post("object-links", json={"name": "x"})).json()["url"]
    path = f"workspaces/{world.ours.workspace_id}"
    async with httpx.AsyncClient() as nobody:
        for verb, status in (("disable", 404), ("enable", 200)):
            assert (await operator.post(f"{path}/{verb}")).status_code == 200
            assert (await nobody.get(url)).status_code == status


async def test_a_workers_token_opens_no_session(api: Api, pool: Any) -> None:
    async with pool.acquire() as connection:
        _, secret = await create_token(connection, workspace_id=None, role="worker", name="w")
    async with api.client(secret) as worker:
        answer = await worker.post("session")
    assert answer.status_code == 403 and "set-cookie" not in answer.headers


async def test_on_the_command_line(
    database_url: str, redis_url: str, world: World, pool: Any, tmp_path: Path
) -> None:
    env = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "LINGXI_DATA_DIR": str(tmp_path)}
    token = await pool.fetchval(
        "select id from tokens where workspace_id = $1 and role = 'viewer'", world.ours.workspace_id
    )
    said = run_lingxi("token", "rotate", str(token), "--overlap-hours", "1", "--json", env=env)
    made = json.loads(said.stdout.splitlines()[-1])
    assert (said.returncode, made["role"], made["token"][:3]) == (0, "viewer", "lx_"), said.stderr
    assert run_lingxi("workspace", "rename", "ours", "studio", env=env).returncode == 0
    assert run_lingxi("workspace", "rename", "studio", "theirs", env=env).returncode == 4
    assert run_lingxi("workspace", "disable", "studio", env=env).stdout.endswith("studio  (disabled)\n")
    assert "disabled" in run_lingxi("workspace", "list", env=env).stdout
    assert run_lingxi("workspace", "enable", "studio", env=env).returncode == 0
    assert await pool.fetchval("select count(*) from audit_log where verb ~ '^(token|workspace)[.]'") == 4
