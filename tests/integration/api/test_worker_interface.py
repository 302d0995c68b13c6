"""The worker interface over HTTP: whose token, what it answers, and that its fence holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from lingxi.services.sweep_leases import sweep_leases
from lingxi.services.tokens import create_token
from tests.integration.api.harness import Api, World, batch

UNKNOWN = "01938f2e-4c00-7a31-9b5e-6f2d8c1a0001"


@pytest.fixture
async def worker(api: Api, pool: asyncpg.Pool[asyncpg.Record]) -> AsyncIterator[httpx.AsyncClient]:
    async with pool.acquire() as connection:
        _, secret = await create_token(connection, workspace_id=None, role="worker", name="node")
    async with api.client(secret) as client:
        yield client


@pytest.fixture
async def items(editor: httpx.AsyncClient) -> list[str]:
    """The ids of three queued drills of one task."""
    task = (await editor.post("media-tasks", json=batch(3))).json()["id"]
    return [f"{task[:-4]}{position:04x}" for position in (1, 2, 3)]


async def claim(worker: httpx.AsyncClient, *items: str, **more: Any) -> dict[str, Any]:
    body = {"type": "demo:drill", "worker": "node-1", "items": list(items), **more}
    answer = await worker.post("worker/claims", json=body)
    assert answer.status_code == 200, answer.text
    claims: dict[str, Any] = answer.json()
    return claims


async def test_claimed_renewed_finished(
    worker: httpx.AsyncClient, editor: httpx.AsyncClient, items: list[str], pool: asyncpg.Pool[asyncpg.Record]
) -> None:
    claims = await claim(worker, *items, items[0], UNKNOWN, "nonsense", leaseSeconds=5)
    assert [one["itemId"] for one in claims["claimed"]] == items
    assert claims["notClaimed"] == [
        {"itemId": "nonsense", "reason": "unknown"},
        {"itemId": UNKNOWN, "reason": "unknown"},
    ]
    first, second, third = claims["claimed"]
    assert (first["input"], first["attempt"], first["ref"]) == ({"durationMs": 0}, 1, "r0")
    again = await claim(worker, items[0])
    assert again == {"claimed": [], "notClaimed": [{"itemId": items[0], "reason": "done"}]}
    lease = await worker.put(
        f"worker/attempts/{first['attemptId']}/lease",
        json={"leaseSeconds": 60, "progress": {"done": 1, "total": 2, "note": "half"}},
    )
    assert (lease.status_code, lease.json()) == (200, {"leaseSeconds": 60.0})

    ends = [
        (first, {"outcome": "succeeded", "result": {"ok": True}}, "succeeded"),
        (
            second,
            {"outcome": "failed", "error": {"code": "no_good", "message": "It is not.", "retryable": False}},
            "failed",
        ),
        (third, {"outcome": "released"}, "queued"),
    ]
    for attempt, body, state in ends:
        for verdict in ("accepted", "already"):  # the answer may have been lost
            answer = await worker.post(f"worker/attempts/{attempt['attemptId']}/finish", json=body)
            assert (answer.status_code, answer.json()) == (200, {"verdict": verdict, "state": state})
    listed = (await editor.get(f"media-tasks/{first['taskId']}/items")).json()["items"]
    assert [item["state"] for item in listed] == ["succeeded", "failed", "queued"]
    assert listed[0]["result"] == {"ok": True}
    assert listed[1]["error"]["code"] == "no_good"
    assert listed[2]["attempt"] == 0, "given back uncharged"
    verbs = [
        row["verb"]
        for row in await pool.fetch("select verb from audit_log where verb like 'worker.%' order by id")
    ]
    assert verbs == ["worker.claim", "worker.claim", "worker.renew", *["worker.finish"] * 6]


async def test_who_was_superseded_changes_nothing(
    worker: httpx.AsyncClient, items: list[str], pool: asyncpg.Pool[asyncpg.Record]
) -> None:
    superseded, done_before = await counted(worker, "superseded"), await counted(worker, "succeeded")
    old = (await claim(worker, items[0]))["claimed"][0]["attemptId"]
    await pool.execute(
        "update media_task_items set lease_expires_at = now() - interval '1 s' where state = 'running'"
    )
    async with pool.acquire() as connection:
        await sweep_leases(connection)
    new = (await claim(worker, items[0]))["claimed"][0]["attemptId"]
    for method, path, body in (
        ("PUT", f"worker/attempts/{old}/lease", {}),
        ("POST", f"worker/attempts/{old}/finish", {"outcome": "succeeded", "result": {"old": True}}),
    ):
        answer = await worker.request(method, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, 40901)
    done = await worker.post(
        f"worker/attempts/{new}/finish", json={"outcome": "succeeded", "result": {"new": True}}
    )
    assert done.json() == {"verdict": "accepted", "state": "succeeded"}
    late = await worker.post(f"worker/attempts/{new}/finish", json={"outcome": "released"})
    assert late.status_code == 409, "another ending than the one that was stored"
    row = await pool.fetchrow("select result from media_task_items where position = 1")
    assert row is not None and row["result"] == '{"new": true}'
    assert (
        await counted(worker, "superseded") - superseded,
        await counted(worker, "succeeded") - done_before,
    ) == (2, 1)


async def counted(worker: httpx.AsyncClient, outcome: str) -> int:
    """Attempts of drills, as the metrics have them."""
    sample = f'lingxi_item_attempts_total{{queue="demo:drill",outcome="{outcome}"}} '
    lines = (await worker.get("metrics")).text.splitlines()
    return sum(int(line.removeprefix(sample)) for line in lines if line.startswith(sample))


async def test_a_superseded_ending_changes_nothing_whatever_it_says(
    worker: httpx.AsyncClient, items: list[str], pool: asyncpg.Pool[asyncpg.Record]
) -> None:
    """Also when nobody else has the item yet, and when the round is a later one."""
    old = (await claim(worker, items[0]))["claimed"][0]["attemptId"]
    await pool.execute(
        "update media_task_items set lease_expires_at = now() - interval '1 s' where state = 'running'"
    )
    async with pool.acquire() as connection:
        await sweep_leases(connection)
    before = await pool.fetch("select * from media_task_items order by position")
    audited = await pool.fetchval("select count(*) from audit_log")
    error = {"code": "no_good", "message": "It is not.", "retryable": False}
    for ending in (
        {"outcome": "succeeded", "result": {"old": True}},
        {"outcome": "failed", "error": error},
        {"outcome": "failed", "error": {**error, "retryable": True}},
        {"outcome": "released"},
    ):
        answer = await worker.post(f"worker/attempts/{old}/finish", json=ending)
        assert (answer.status_code, answer.json()["code"]) == (409, 40901), ending
    assert await pool.fetch("select * from media_task_items order by position") == before
    assert await pool.fetchval("select count(*) from audit_log") == audited


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"outcome": "done"}, "outcome"),
        ({"outcome": "failed"}, "error"),
        ({"outcome": "released", "result": {}}, "result"),
        ({"outcome": "succeeded", "error": {"code": "a", "message": "b", "retryable": True}}, "error"),
        ({"outcome": "failed", "error": {"code": "Not So", "message": "b", "retryable": True}}, "error.code"),
        ({"outcome": "succeeded", "result": []}, "result"),
    ],
)
async def test_an_ending_that_contradicts_itself(
    worker: httpx.AsyncClient, items: list[str], body: Any, field: str
) -> None:
    attempt = (await claim(worker, items[0]))["claimed"][0]["attemptId"]
    answer = await worker.post(f"worker/attempts/{attempt}/finish", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


async def test_a_result_that_cannot_be_stored_fails_its_item(
    worker: httpx.AsyncClient, items: list[str]
) -> None:
    attempt = (await claim(worker, items[0]))["claimed"][0]["attemptId"]
    large = {"outcome": "succeeded", "result": {"t": "x" * 70_000}}
    answer = await worker.post(f"worker/attempts/{attempt}/finish", json=large)
    assert answer.json() == {"verdict": "accepted", "state": "failed"}


async def test_only_a_workers_token_and_nothing_else_with_it(
    api: Api, world: World, worker: httpx.AsyncClient, editor: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    async with api.client(world.operator) as operator:
        for other in (editor, admin, operator):
            answer = await other.post(
                "worker/claims", json={"type": "demo:drill", "worker": "x", "items": []}
            )
            assert (answer.status_code, answer.json()["code"]) == (403, 40301)
    for path in (
        "media-tasks",
        f"media-tasks/{UNKNOWN}",
        "objects/x",
        "tokens",
        "workspaces",
        "workspaces/caps",
    ):
        answer = await worker.get(path)
        assert (answer.status_code, answer.json()["code"]) == (403, 40301), path
    for attempt in (f"{UNKNOWN}.x", "nonsense", f"{UNKNOWN}.{'9' * 30}"):
        assert (await worker.put(f"worker/attempts/{attempt}/lease", json={})).status_code == 404
    assert (await worker.put(f"worker/attempts/{UNKNOWN}.7/lease", json={})).status_code == 409
    unknown = await worker.post("worker/claims", json={"type": "no:such", "worker": "x", "items": []})
    assert unknown.status_code == 422


async def test_an_operator_caps_a_workspace(
    api: Api, world: World, worker: httpx.AsyncClient, items: list[str], admin: httpx.AsyncClient
) -> None:
    workspace: UUID = world.ours.workspace_id
    async with api.client(world.operator) as operator:
        put = await operator.put(f"workspaces/{workspace}/cap", json={"maxRunning": 2})
        assert (put.status_code, put.json()) == (200, {"workspaceId": str(workspace), "maxRunning": 2})
        claims = await claim(worker, *items)
        assert len(claims["claimed"]) == 2
        assert claims["notClaimed"] == [{"itemId": items[2], "reason": "later"}]
        listed = (await operator.get("workspaces/caps")).json()["caps"]
        assert listed == [{"workspaceId": str(workspace), "maxRunning": 2, "running": 2}]
        await operator.put(f"workspaces/{workspace}/cap", json={"maxRunning": None})
        assert len((await claim(worker, items[2]))["claimed"]) == 1
        for body in ({"maxRunning": 0}, {"maxRunning": "2"}, {}):
            assert (await operator.put(f"workspaces/{workspace}/cap", json=body)).status_code == 422
        assert (await operator.put(f"workspaces/{UNKNOWN}/cap", json={"maxRunning": 1})).status_code == 404
    assert (await admin.put(f"workspaces/{workspace}/cap", json={"maxRunning": 1})).status_code == 403
