"""A workspace takes no more than it may: requests a minute, items that have not ended, stored bytes; and sees what it has."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from lingxi.services.cancel_task import cancel_task
from lingxi.services.quotas import Limits, OverQuota, Quota, charge_open_items, read_usage, set_quota
from lingxi.services.submit_task import NewTask, submit_task
from tests.integration.api.harness import Api, World, batch, open_api
from tests.support.processes import run_lingxi


@pytest.fixture
async def limited(
    database_url: str, redis_url: str, tmp_path: Path, world: World
) -> AsyncIterator[tuple[Api, World]]:
    """An API of a deployment with limits for everybody."""
    limits = Limits(requests_per_minute=200, open_items=10, stored_bytes=1_000)
    async with open_api(database_url, redis_url, tmp_path, workspace_limits=limits, pool_size=20) as served:
        yield served, world


async def test_open_items_are_bounded_and_freed_as_they_end(limited: tuple[Api, World]) -> None:
    api, world = limited
    async with api.client(world.ours.editor) as editor, api.client(world.theirs.editor) as theirs:
        first = await editor.post("media-tasks", json=batch(7))
        assert first.status_code == 202
        over = await editor.post("media-tasks", json=batch(4))
        assert (over.status_code, over.json()["code"], over.headers["Retry-After"]) == (429, 42901, "5")
        assert over.json()["detail"].startswith(
            "The workspace may have 10 items that have not ended; 7 have not"
        )
        assert (await editor.post("media-tasks", json=batch(3))).status_code == 202, "exactly the limit"
        assert (await editor.post("media-tasks", json=batch(1))).status_code == 429
        assert (await theirs.post("media-tasks", json=batch(9))).status_code == 202, (
            "another's quota is its own"
        )
        limits = (await editor.get("limits")).json()
        assert limits["openItems"] == {"limit": 10, "used": 10, "own": False}
        await editor.post(f"media-tasks/{first.json()['id']}/cancel")
        assert (await editor.post("media-tasks", json=batch(7))).status_code == 202, (
            "what ended is free at once"
        )
        metrics = (await editor.get("metrics")).text
        assert 'lingxi_quota_refused_total{limit="open_items"} 2' in metrics
        assert 'lingxi_quota_refused_total{limit="requests"} 0' in metrics


async def test_a_replay_comes_before_quotas_and_a_refusal_leaves_the_key_free(
    limited: tuple[Api, World],
) -> None:
    api, world = limited
    key = {"Idempotency-Key": "k"}
    async with api.client(world.ours.editor) as editor:
        accepted = await editor.post("media-tasks", json=batch(10), headers=key)
        again = await editor.post("media-tasks", json=batch(10), headers=key)
        assert (again.status_code, again.json()) == (202, accepted.json())
        other = {"Idempotency-Key": "other"}
        assert (await editor.post("media-tasks", json=batch(1), headers=other)).status_code == 429
        await editor.post(f"media-tasks/{accepted.json()['id']}/cancel")
        late = await editor.post("media-tasks", json=batch(1), headers=other)
        assert (late.status_code, "Idempotent-Replayed" in late.headers) == (202, False)


async def test_many_at_once_do_not_pass_the_quota_together(limited: tuple[Api, World], pool: Any) -> None:
    api, world = limited
    async with api.client(world.ours.editor) as editor:
        answers = await asyncio.gather(*(editor.post("media-tasks", json=batch(1)) for _ in range(30)))
    assert Counter(answer.status_code for answer in answers) == {202: 10, 429: 20}
    assert await pool.fetchval("select sum(total_items) from media_tasks") == 10


async def test_two_transactions_take_turns(pool: Any, world: World) -> None:
    """The second is decided after the commit of the first, by what was committed."""
    workspace = world.ours.workspace_id
    async with pool.acquire() as one, pool.acquire() as two:
        first = one.transaction()
        await first.start()
        await charge_open_items(one, workspace, 6, 10)
        await submit_task(one, NewTask(workspace, "demo:drill", 1, [None] * 6, ["{}"] * 6))
        second = asyncio.create_task(charge_open_items(two, workspace, 6, 10))
        done, _ = await asyncio.wait({second}, timeout=0.3)
        assert not done, "it waits"
        await first.commit()
        with pytest.raises(OverQuota):
            await second


async def test_what_was_counted_is_counted_anew_when_it_is_old(pool: Any, world: World) -> None:
    workspace = world.ours.workspace_id
    async with pool.acquire() as connection, connection.transaction():
        await charge_open_items(connection, workspace, 1, 10)
        task = await submit_task(connection, NewTask(workspace, "demo:drill", 1, [None] * 8, ["{}"] * 8))
        await charge_open_items(connection, workspace, 1, 10)
        assert await connection.fetchval("select open_bound from workspace_quotas") == 2, (
            "only what was charged"
        )
        await connection.execute(
            "update workspace_quotas set open_counted_at = clock_timestamp() - interval '11 s'"
        )
        with pytest.raises(OverQuota):
            await charge_open_items(connection, workspace, 3, 10)
        await charge_open_items(connection, workspace, 2, 10)
        await cancel_task(connection, workspace, task.id)
        await charge_open_items(connection, workspace, 10, 10)


async def test_stored_bytes(limited: tuple[Api, World], pool: Any) -> None:
    api, world = limited
    async with api.client(world.ours.editor) as editor:
        assert (await editor.put("objects/a", content=b"x" * 700)).status_code == 201
        over = await editor.put("objects/b", content=b"x" * 301)
        assert (over.status_code, over.json()["code"], over.headers["Retry-After"]) == (429, 42901, "60")
        assert await pool.fetchval("select count(*) from objects") == 1
        assert (await editor.put("objects/b", content=b"x" * 300)).status_code == 201
        assert (await editor.get("limits")).json()["storedBytes"] == {
            "limit": 1000,
            "used": 1000,
            "own": False,
        }
        album = (await editor.post("albums", json={"name": "A"})).json()["id"]
        tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "1", "Upload-Metadata": "filename YS5qcGc="}
        assert (await editor.post(f"albums/{album}/uploads", headers=tus)).status_code == 429


async def test_uploads_under_way_are_counted(pool: Any, world: World) -> None:
    workspace = world.ours.workspace_id
    album = await pool.fetchval(
        "insert into albums (id, workspace_id, name) values ($1, $2, 'A') returning id", uuid4(), workspace
    )
    upload = (
        "insert into uploads (id, workspace_id, album_id, file_name, length_bytes, expires_at) "
        "values ($1, $2, $3, 'a', $4, clock_timestamp() + make_interval(secs => $5))"
    )
    await pool.execute(upload, uuid4(), workspace, album, 100, 60.0)
    await pool.execute(upload, uuid4(), workspace, album, 50, -60.0)
    assert (await read_usage(pool, workspace)).stored_bytes == 100


async def test_requests_a_minute_and_replays_beyond_them(
    database_url: str, redis_url: str, tmp_path: Path, world: World
) -> None:
    limits = Limits(requests_per_minute=5)
    async with open_api(database_url, redis_url, tmp_path, workspace_limits=limits) as api:
        async with api.client(world.ours.editor) as editor, api.client(world.theirs.viewer) as theirs:
            key = {"Idempotency-Key": "k"}
            first = await editor.post("media-tasks", json=batch(1), headers=key)
            for _ in range(4):
                assert (await editor.get("media-tasks")).status_code == 200
            over = await editor.get("media-tasks")
            assert (over.status_code, over.json()["code"]) == (429, 42901)
            assert 1 <= int(over.headers["Retry-After"]) <= 12
            assert (await editor.post("media-tasks", json=batch(1))).status_code == 429
            again = await editor.post("media-tasks", json=batch(1), headers=key)
            assert (again.status_code, again.json()) == (202, first.json())
            assert (await theirs.get("media-tasks")).status_code == 200
            assert 'lingxi_quota_refused_total{limit="requests"} 2' in (await editor.get("metrics")).text
        async with api.client(world.ours.viewer) as viewer:
            assert (await viewer.get("media-tasks")).status_code == 429, "all tokens of a workspace together"
            assert (await viewer.get(f"media-tasks/{uuid4()}/events")).status_code == 429, "streams, too"
            assert (await viewer.get(f"albums/{uuid4()}")).status_code == 429
            assert (await viewer.get("workspaces")).status_code == 403, "the role is looked at first"


async def test_an_operator_sets_them_and_the_workspace_sees_them(
    api: Api, world: World, operator: httpx.AsyncClient, admin: httpx.AsyncClient, pool: Any
) -> None:
    path = f"workspaces/{world.ours.workspace_id}/quota"
    assert (await admin.get("limits")).json()["openItems"] == {"limit": None, "used": 0, "own": False}
    assert (await admin.put(path, json={})).status_code == 403
    assert (await operator.put(path, json={"openItems": 1})).status_code == 422, "all three"
    assert (await operator.put(f"workspaces/{uuid4()}/quota", json={})).status_code == 404
    asked = {"requestsPerMinute": None, "openItems": 3.0, "storedBytes": 0}  # 3.0 is whole
    answer = await operator.put(path, json=asked)
    assert (answer.status_code, answer.json()) == (
        200,
        {"workspaceId": str(world.ours.workspace_id), **asked},
    )
    async with api.client(world.ours.editor) as editor:
        assert (await editor.post("media-tasks", json=batch(4))).status_code == 429, "it holds here at once"
        assert (await editor.get("limits")).json()["openItems"] == {"limit": 3, "used": 0, "own": True}
        assert (await operator.get(path)).json() == (await editor.get("limits")).json()
    row = await pool.fetchrow("select workspace_id, verb from audit_log where verb = 'workspace.quota'")
    assert tuple(row) == (world.ours.workspace_id, "workspace.quota")


async def test_on_the_command_line(
    database_url: str, redis_url: str, world: World, pool: Any, tmp_path: Path
) -> None:
    env = {
        "DATABASE_URL": database_url, "REDIS_URL": redis_url, "LINGXI_DATA_DIR": str(tmp_path),
        "WORKSPACE_OPEN_ITEMS": "99",
    }  # fmt: skip
    await set_quota(pool, world.ours.workspace_id, Quota(stored_bytes=5))
    said = run_lingxi("workspace", "quota", "ours", "--requests-per-minute", "60", "--json", env=env)
    limits = json.loads(said.stdout.splitlines()[-1])
    assert limits["requestsPerMinute"] == {"limit": 60, "own": True}
    assert limits["openItems"] == {"limit": 99, "own": False, "used": 0}
    assert limits["storedBytes"] == {"limit": 5, "own": True, "used": 0}
    lifted = run_lingxi(
        "workspace", "quota", "ours", "--stored-bytes", "default", "--open-items", "none", env=env
    )
    assert lifted.returncode == 0
    row = await pool.fetchrow("select requests_per_minute, open_items, stored_bytes from workspace_quotas")
    assert tuple(row) == (60, 0, None)
    assert run_lingxi("workspace", "quota", "ours", "--open-items", "-1", env=env).returncode == 2
    assert await pool.fetchval("select count(*) from audit_log where verb = 'workspace.quota'") == 2
