"""Dead letters: seen, sent again (mended if need be), or given up, with the truth told about their items."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.services.albums import create_album
from lingxi.services.outbox_events import photo_event
from tests.integration.api.harness import Api, World, batch
from tests.support.processes import run_lingxi
from tests.support.soundness import violations

DIE = "update outbox_events set last_error = 'dead_lettered', attempts = 10, error_detail = 'there is no queue' where "


@pytest.fixture
async def dispatcher(database_url: str, redis_url: str) -> Any:
    made = Dispatcher(
        DispatcherConfig(database_url, redis_url, retry_base_seconds=0.0, retry_cap_seconds=0.0)
    )
    yield made
    await made.close()


async def dead_task(client: httpx.AsyncClient, pool: Any, items: int = 2) -> tuple[UUID, int]:
    """A task whose event was given up on; the event's id."""
    task = UUID((await client.post("media-tasks", json=batch(items))).json()["id"])
    await pool.execute(DIE + "task_id = $1", task)
    return task, await pool.fetchval("select id from outbox_events where task_id = $1", task)


async def verbs(pool: Any) -> list[tuple[Any, ...]]:
    rows = await pool.fetch(
        "select workspace_id, verb, target from audit_log where verb like 'dead_letter.%' order by id"
    )
    return [tuple(row) for row in rows]


async def test_a_redriven_event_is_sent_and_no_dead_letter_any_more(
    editor: httpx.AsyncClient, admin: httpx.AsyncClient, world: World, pool: Any, dispatcher: Dispatcher
) -> None:
    task, event = await dead_task(editor, pool)
    assert (await dispatcher.run_once()).claimed == 0
    listed = (await admin.get("dead-letters")).json()["deadLetters"]
    assert [(one["id"], one["taskId"], one["items"], one["error"]) for one in listed] == [
        (event, str(task), 2, "there is no queue")
    ]
    assert (await admin.get(f"dead-letters/{event}")).json() == listed[0]
    answer = await admin.post(f"dead-letters/{event}/redrive")
    assert (answer.status_code, answer.json()) == (200, {"id": event, "outcome": "redriven"})
    done = await dispatcher.run_once()
    assert (done.claimed, done.jobs, done.published) == (1, 2, 1)
    assert (await admin.get("dead-letters")).json()["deadLetters"] == []
    again = await admin.post(f"dead-letters/{event}/redrive")
    assert (again.status_code, again.json()["code"]) == (409, 40901)
    assert await verbs(pool) == [(world.ours.workspace_id, "dead_letter.redrive", f"event:{event}")]


async def test_a_payload_is_mended_by_whom_it_belongs_to_and_names_only_what_is_theirs(
    api: Api, admin: httpx.AsyncClient, world: World, pool: Any, dispatcher: Dispatcher, redis_url: str
) -> None:
    async with pool.acquire() as connection:
        ours = await create_album(connection, world.ours.workspace_id, "a")
        theirs = await create_album(connection, world.theirs.workspace_id, "b")
        await photo_event(
            connection, "photo.uploaded", world.ours.workspace_id, {"v": 1, "photoId": "nonsense"}
        )
    for _ in range(10):
        await pool.execute("update outbox_events set next_attempt_at = now() where published_at is null")
        assert (await dispatcher.run_once()).charged == 1
    (letter,) = (await admin.get("dead-letters")).json()["deadLetters"]
    assert (letter["attempts"], letter["error"]) == (10, "the payload's photoId is no UUID")
    path = f"dead-letters/{letter['id']}/redrive"
    good = {"v": 1, "albumId": str(ours.id)}
    for bad in (
        {**good, "v": 2}, {**good, "v": True}, {**good, "v": None}, {}, {**good, "albumId": "x"},
        {**good, "albumId": str(theirs.id)}, {**good, "photoId": str(uuid4())}, {**good, "x": "y" * 17_000},
    ):  # fmt: skip
        refused = await admin.post(path, json={"payload": bad})
        assert (refused.status_code, refused.json()["code"]) == (422, 40001), bad
    assert (await admin.get(f"dead-letters/{letter['id']}")).json() == letter, "nothing was changed"
    await pool.execute("update outbox_events set type = 'photo.updated', queue = null")
    assert (await admin.post(path, json={"payload": good})).status_code == 200
    assert (await dispatcher.run_once()).published == 1


async def test_discarding_ends_what_waits_and_a_retry_runs_it(
    editor: httpx.AsyncClient,
    admin: httpx.AsyncClient,
    database_url: str,
    pool: Any,
    dispatcher: Dispatcher,
) -> None:
    task, event = await dead_task(editor, pool, 3)
    assert (await admin.post(f"dead-letters/{event}/discard")).json() == {"id": event, "outcome": "discarded"}
    told = (await editor.get(f"media-tasks/{task}")).json()
    assert (told["status"], told["counts"]["failed"], told["finishedAt"] is None) == ("failed", 3, False)
    items = (await editor.get(f"media-tasks/{task}/items")).json()["items"]
    assert {(one["state"], one["error"]["code"], one["error"]["retryable"]) for one in items} == {
        ("failed", "dispatch_failed", True)
    }
    counts = await pool.fetchrow(
        "select count(*) filter (where published_at is null and last_error = 'dead_lettered') as dead, "
        "count(*) filter (where type = 'task.ended') as ended from outbox_events"
    )
    assert tuple(counts) == (0, 1), "it left the count, and the end was told once"
    assert await violations(database_url) == []
    assert (await editor.post(f"media-tasks/{task}/retry-failed")).status_code == 202
    assert (await dispatcher.run_once()).jobs == 3
    assert (await admin.post(f"dead-letters/{event}/discard")).status_code == 409
    assert (await editor.get(f"media-tasks/{task}")).json()["counts"]["queued"] == 3, (
        "nor does it touch the new round"
    )
    assert await violations(database_url) == []


async def test_discarding_leaves_alone_what_runs_or_waits_for_a_later_event(
    editor: httpx.AsyncClient, admin: httpx.AsyncClient, pool: Any, database_url: str
) -> None:
    task, event = await dead_task(editor, pool, 4)
    await pool.execute(
        "update media_task_items set state = 'running', attempt = 1, attempt_id = 7, worker = 'w', started_at = now(), "
        "lease_expires_at = now() + interval '1 hour', deadline_at = now() + interval '1 hour' "
        "where task_id = $1 and position = 1",
        task,
    )
    await pool.execute(
        "update media_tasks set queued_items = 3, running_items = 1, last_seq = 2 where id = $1", task
    )
    await pool.execute("update media_task_items set last_seq = 2 where task_id = $1 and position = 1", task)
    await pool.execute(
        "insert into outbox_events (type, queue, workspace_id, task_id, round, positions, item_count) "
        "select type, queue, workspace_id, task_id, round, '{2}', 1 from outbox_events where id = $1",
        event,
    )
    assert (await admin.post(f"dead-letters/{event}/discard")).status_code == 200
    items = (await editor.get(f"media-tasks/{task}/items")).json()["items"]
    assert [one["state"] for one in items] == ["running", "queued", "failed", "failed"]
    assert (await editor.get(f"media-tasks/{task}")).json()["status"] == "running"
    assert await violations(database_url) == []


async def test_many_who_steer_one_letter_are_one(
    admin: httpx.AsyncClient, editor: httpx.AsyncClient, pool: Any, database_url: str
) -> None:
    _, event = await dead_task(editor, pool)
    wanted = ["redrive", "discard"] * 5
    answers = await asyncio.gather(*(admin.post(f"dead-letters/{event}/{verb}") for verb in wanted))
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 9]
    assert len(await verbs(pool)) == 1
    assert await violations(database_url) == []


async def test_who_sees_which(
    api: Api,
    admin: httpx.AsyncClient,
    editor: httpx.AsyncClient,
    operator: httpx.AsyncClient,
    world: World,
    pool: Any,
) -> None:
    _, event = await dead_task(editor, pool)
    async with api.client(world.theirs.admin) as theirs:
        _, other = await dead_task(theirs, pool)
        for method, tail in (("GET", ""), ("POST", "/redrive"), ("POST", "/discard")):
            assert (await theirs.request(method, f"dead-letters/{event}{tail}")).status_code == 404
    assert (await editor.get("dead-letters")).status_code == 403
    first = (await operator.get("dead-letters", params={"limit": 1})).json()
    rest = (await operator.get("dead-letters", params={"cursor": first["nextCursor"]})).json()
    assert [one["id"] for one in first["deadLetters"] + rest["deadLetters"]] == [event, other]
    assert (await admin.get("dead-letters", params={"cursor": first["nextCursor"]})).status_code == 400
    assert (await operator.post(f"dead-letters/{other}/redrive")).status_code == 200
    assert await verbs(pool) == [(world.theirs.workspace_id, "dead_letter.redrive", f"event:{other}")]


async def test_the_command_line_beside_the_database(
    editor: httpx.AsyncClient, pool: Any, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    env = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "LINGXI_DATA_DIR": str(tmp_path)}
    lingxi: Callable[..., Any] = lambda *arguments: run_lingxi("dead-letters", *arguments, env=env)  # noqa: E731
    _, event = await dead_task(editor, pool)
    _, second = await dead_task(editor, pool)
    listed = lingxi("list", "--json")
    assert [one["id"] for one in json.loads(listed.stdout.splitlines()[-1])["deadLetters"]] == [event, second]
    redriven = lingxi("redrive", str(event))
    assert (redriven.returncode, redriven.stdout) == (0, f"{event} sent again\n"), redriven.stderr
    again = lingxi("redrive", str(event))
    assert (again.returncode, "no dead letter any more" in again.stderr) == (4, True)
    assert lingxi("discard", "--all", "--yes").returncode == 0
    assert (
        await pool.fetchval("select count(*) from media_task_items where error_code = 'dispatch_failed'") == 2
    )
    assert [verb for _, verb, _ in await verbs(pool)] == ["dead_letter.redrive", "dead_letter.discard"]
