"""Endpoints over HTTP, the events that reach them by way of the outbox, replays, and what is nobody's business."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from lingxi import names
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.processors.demo_drill import DRILL
from lingxi.processors.outgoing.post import Poster
from lingxi.processors.registry import Registry
from lingxi.processors.webhook_deliver import WebhookDeliver
from lingxi.services.outbox_events import photo_event
from tests.integration.api.harness import Api, World, make_world, open_api
from tests.integration.webhooks.conftest import LOOPBACK
from tests.support.soundness import violations

Pool = asyncpg.Pool
URL = "https://hooks.example.com/lingxi"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await make_world(pool)


@pytest.fixture
async def api(database_url: str, redis_url: str, world: World, tmp_path: Path) -> AsyncIterator[Api]:
    deliver = WebhookDeliver(lambda: None, Poster(LOOPBACK)).processor()  # type: ignore[arg-type,return-value]
    registry = Registry([DRILL, deliver])
    async with open_api(
        database_url, redis_url, tmp_path, registry=registry, webhook_rule=LOOPBACK
    ) as opened:
        yield opened
    assert await violations(database_url) == []


@pytest.fixture
async def admin(api: Api, world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with api.client(world.ours.admin) as client:
        yield client


@pytest.fixture
async def dispatcher(database_url: str, redis_url: str) -> AsyncIterator[Dispatcher]:
    made = Dispatcher(DispatcherConfig(database_url, redis_url))
    yield made
    await made.close()


async def make(admin: httpx.AsyncClient, *events: str, url: str = URL) -> dict[str, Any]:
    answer = await admin.post("webhooks", json={"url": url, "events": events or list(names.WEBHOOK_EVENTS)})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def emit(pool: Pool, workspace: UUID, type_: str = "photo.published", **more: Any) -> None:
    async with pool.acquire() as connection:
        payload = {"v": 1, "photoId": str(uuid4()), "albumId": str(uuid4()), **more}
        await photo_event(connection, type_, workspace, payload)


async def settle(pool: Pool, outcome: str) -> None:
    """End every delivery that waits, as a worker does."""
    keys = "select array_agg(task_id) t, array_agg(position) p from media_task_items where state = 'queued'"
    claim = "select array_agg(task_id) t, array_agg(pos) p, array_agg(attempt_id) f from claim_items($1, $2, $3, 'w', $4, $4)"
    async with pool.acquire() as connection, connection.transaction():
        waiting = await connection.fetchrow(keys)
        minute = timedelta(minutes=1)
        claimed = await connection.fetchrow(claim, names.WEBHOOK_QUEUE, waiting["t"], waiting["p"], minute)
        count = len(claimed["t"])
        code = "endpoint_refused" if outcome == "failed" else None
        told = [[outcome] * count, [None] * count, [code] * count, [code] * count]
        await connection.execute(
            "select finish_items($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            *(claimed["t"], claimed["p"], claimed["f"], *told),
            *([None] * count, [0.0] * count),
        )
        if outcome == "succeeded":
            await connection.execute(
                "update webhook_deliveries set delivered_at = now() where task_id is not null"
            )


async def test_an_event_becomes_one_task_with_an_item_for_each_endpoint_that_wants_it(
    api: Api, admin: httpx.AsyncClient, dispatcher: Dispatcher, pool: Pool, world: World
) -> None:
    first, second = await make(admin), await make(admin, "photo.published", "photo.removed")
    await make(admin, "task.ended")
    off = await make(admin, "photo.published")
    assert (await admin.post(f"webhooks/{off['id']}/disable")).json()["disabledReason"] == "asked"
    async with api.client(world.theirs.admin) as theirs:
        await make(theirs)
    await emit(pool, world.ours.workspace_id, entityVersion=2)
    for _ in range(3):
        await dispatcher.run_once()
    (task,) = await pool.fetch("select * from media_tasks")
    assert (task["type"], task["total_items"], task["max_attempts"]) == ("webhook:deliver", 2, 10)
    items = await pool.fetch("select input from media_task_items order by position")
    (event,) = await pool.fetch("select * from webhook_events")
    wanted = [{"endpointId": one["id"], "eventId": str(event["id"])} for one in (first, second)]
    key = lambda one: one["endpointId"]  # noqa: E731
    assert sorted((json.loads(item["input"]) for item in items), key=key) == sorted(wanted, key=key)
    body = json.loads(event["body"])
    assert (body["v"], body["type"], body["data"]["entityVersion"]) == (1, "photo.published", 2)
    assert await pool.fetchval("select count(*) from outbox_events where published_at is null") == 0
    missed = (await admin.get(f"webhooks/{off['id']}/deliveries")).json()["deliveries"]
    assert [(one["state"], one["taskId"]) for one in missed] == [("missed", None)]

    # the end of a delivery is told to nobody, and no such task is in the list unless it is asked for
    await settle(pool, "succeeded")
    ended = "select count(*) from outbox_events where type = 'task.ended'"
    assert await pool.fetchval(ended) == 1
    await dispatcher.run_once()
    assert await pool.fetchval("select count(*) from webhook_events") == 1
    assert (await admin.get("media-tasks")).json()["tasks"] == []
    listed = (await admin.get("media-tasks", params={"type": "webhook:deliver"})).json()["tasks"]
    assert [one["id"] for one in listed] == [str(task["id"])]


async def test_nobody_subscribed_nothing_written_and_a_crash_writes_it_once(
    admin: httpx.AsyncClient,
    dispatcher: Dispatcher,
    pool: Pool,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await emit(pool, world.ours.workspace_id)
    assert (await dispatcher.run_once()).published == 1
    assert await pool.fetchval("select count(*) from webhook_events") == 0
    await make(admin)
    await emit(pool, world.ours.workspace_id)

    async def breaks(*_: Any, **__: Any) -> None:
        raise ConnectionError("cut")

    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "_write_down", breaks)
        await dispatcher.run_once()
    assert await pool.fetchval("select count(*) from webhook_events") == 0
    for _ in range(3):
        await dispatcher.run_once()
    assert await pool.fetchval("select count(*) from webhook_events") == 1
    assert await pool.fetchval("select count(*) from media_tasks") == 1


async def test_replay_sends_what_was_not_delivered_and_leaves_alone_what_waits(
    admin: httpx.AsyncClient, dispatcher: Dispatcher, pool: Pool, world: World
) -> None:
    hook = f"webhooks/{(await make(admin))['id']}"

    async def states() -> list[str]:
        return [one["state"] for one in (await admin.get(f"{hook}/deliveries")).json()["deliveries"]]

    since = {"since": "2026-01-01T00:00:00Z"}
    await emit(pool, world.ours.workspace_id)
    await dispatcher.run_once()
    assert (await admin.post(f"{hook}/replay", json=since)).json() == {"replayed": 0, "taskId": None}
    event = (await admin.get(f"{hook}/deliveries")).json()["deliveries"][0]["eventId"]
    assert (await admin.post(f"{hook}/replay", json={"eventId": event})).status_code == 409
    await settle(pool, "succeeded")
    await emit(pool, world.ours.workspace_id)
    await dispatcher.run_once()
    await settle(pool, "failed")
    await admin.post(f"{hook}/disable")
    await emit(pool, world.ours.workspace_id)
    await dispatcher.run_once()
    assert await states() == ["missed", "failed", "delivered"]
    failed = (
        await admin.get(f"{hook}/deliveries", params={"state": ["failed", "missed"], "limit": 1})
    ).json()
    assert [one["state"] for one in failed["deliveries"]] == ["missed"]
    more = {"state": ["missed", "failed"], "limit": 1, "cursor": failed["nextCursor"]}
    rest = (await admin.get(f"{hook}/deliveries", params=more)).json()
    assert ([one["state"] for one in rest["deliveries"]], rest["nextCursor"]) == (["failed"], None)

    refused = await admin.post(f"{hook}/replay", json=since)
    assert (refused.status_code, refused.json()["code"]) == (409, 40901)
    assert (await admin.post(f"{hook}/enable")).json()["enabled"] is True
    answer = await admin.post(f"{hook}/replay", json=since)
    assert answer.status_code == 202 and answer.json()["replayed"] == 2
    assert await states() == ["queued", "queued", "delivered"]
    assert (await admin.post(f"{hook}/replay", json=since)).json()["replayed"] == 0
    assert (await admin.post(f"{hook}/replay", json={"eventId": event})).json()["replayed"] == 1
    assert await states() == ["queued", "queued", "queued"]
    verbs = await pool.fetch("select verb, count(*) as n from audit_log group by verb")
    assert {row["verb"]: row["n"] for row in verbs} == {
        "webhook.create": 1,
        "webhook.disable": 1,
        "webhook.enable": 1,
        "webhook.replay": 4,
    }


async def test_the_secret_is_shown_once_and_rotated(admin: httpx.AsyncClient, pool: Pool) -> None:
    made = await make(admin)
    hook = f"webhooks/{made['id']}"
    assert made["secret"].startswith("whsec_") and len(made["secret"]) > 40
    for answer in (await admin.get(hook), await admin.get("webhooks"), await admin.post(f"{hook}/enable")):
        assert "whsec_" not in answer.text and "secret" not in answer.text
    changed = await admin.patch(
        hook, json={"description": "the gallery", "events": ["task.ended", "task.ended"]}
    )
    assert (changed.json()["description"], changed.json()["events"]) == ("the gallery", ["task.ended"])
    rotated = (await admin.post(f"{hook}/rotate", json={"overlapSeconds": 60})).json()
    assert rotated["secret"] != made["secret"] and rotated["rotatingUntil"] is not None
    row = await pool.fetchrow("select * from webhook_endpoints")
    assert row is not None and (row["secret"], row["previous_secret"]) == (rotated["secret"], made["secret"])
    at_once = (await admin.post(f"{hook}/rotate", json={"overlapSeconds": 0})).json()
    assert at_once["rotatingUntil"] is None
    assert await pool.fetchval("select previous_secret from webhook_endpoints") is None
    assert (await admin.delete(hook)).status_code == 204
    assert (await admin.delete(hook)).status_code == 404


async def test_it_is_for_admins_of_the_own_workspace(
    api: Api, admin: httpx.AsyncClient, world: World
) -> None:
    hook = f"webhooks/{(await make(admin))['id']}"
    calls: list[tuple[str, str, Any]] = [
        ("GET", hook, None),
        ("PATCH", hook, {"description": "x"}),
        ("POST", f"{hook}/enable", None),
        ("POST", f"{hook}/disable", None),
        ("POST", f"{hook}/rotate", {}),
        ("GET", f"{hook}/deliveries", None),
        ("POST", f"{hook}/replay", {"since": "2026-01-01T00:00:00Z"}),
        ("DELETE", hook, None),
    ]
    for token, status, code in (
        (world.theirs.admin, 404, 40401),
        (world.ours.editor, 403, 40301),
        (world.operator, 403, 40301),
        (None, 401, 40101),
    ):
        async with api.client(token) as client:
            for method, path, body in [*calls, ("GET", "webhooks", None)]:
                if status == 404 and path == "webhooks":
                    assert (await client.get(path)).json() == {"webhooks": []}
                    continue
                answer = await client.request(method, path, json=body)
                assert (answer.status_code, answer.json()["code"]) == (status, code), (method, path)
    assert (await admin.get(hook)).json()["enabled"] is True


async def test_what_cannot_be_an_endpoint_is_refused_with_its_field(admin: httpx.AsyncClient) -> None:
    one = {"url": URL, "events": ["task.ended"]}
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({**one, "url": "http://example.com/"}, None),  # a name: its addresses decide when it is sent
        ({**one, "url": "http://8.8.8.8/"}, "url"),
        ({**one, "url": "https://169.254.169.254/"}, "url"),
        ({**one, "url": "https://2130706433/"}, "url"),
        ({**one, "events": []}, "events"),
        ({**one, "events": ["photo.uploaded"]}, "events.0"),
        ({"url": URL}, "events"),
        ({**one, "secret": "mine"}, "secret"),
    ]
    for body, field in cases:
        answer = await admin.post("webhooks", json=body)
        assert answer.status_code == (422 if field else 201), answer.text
        fields = [wrong["field"] for wrong in answer.json().get("errors", [])]
        assert fields == ([field] if field else [])
    hook = f"webhooks/{(await make(admin))['id']}"
    assert (await admin.patch(hook, json={"url": "https://10.0.0.1/"})).status_code == 422
    for replay in ({}, {"since": "2026-01-01T00:00:00Z", "eventId": str(uuid4())}, {"since": "yesterday"}):
        assert (await admin.post(f"{hook}/replay", json=replay)).status_code == 422
    assert (await admin.post(f"{hook}/replay", json={"eventId": str(uuid4())})).status_code == 404
    assert (await admin.get(f"{hook}/deliveries", params={"state": "lost"})).status_code == 422


async def test_a_workspace_has_at_most_fifty(admin: httpx.AsyncClient, pool: Pool) -> None:
    await make(admin)
    copies = "select gen_random_uuid(), workspace_id, url, events, secret from webhook_endpoints, generate_series(1, 49)"
    await pool.execute(f"insert into webhook_endpoints (id, workspace_id, url, events, secret) {copies}")
    answer = await admin.post("webhooks", json={"url": URL, "events": ["task.ended"]})
    assert (answer.status_code, answer.json()["code"]) == (409, 40901)
    assert len((await admin.get("webhooks")).json()["webhooks"]) == 50
