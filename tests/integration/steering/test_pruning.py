"""What is older than it is kept is removed, in small steps; what lives is not touched, however old it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from lingxi.maintenance.pruner import Pruner
from lingxi.services import retention
from lingxi.services.cancel_task import cancel_task
from lingxi.services.retention import Retention, count_prunable
from tests.integration.api.harness import World, batch
from tests.support.least_rights import as_app
from tests.support.processes import run_lingxi
from tests.support.work import Work

DAYS = Retention(tasks_days=30, events_days=7, webhooks_days=30, audit_days=400)
NOTHING = dict.fromkeys(retention.KINDS, 0)


@pytest.fixture
async def work(pool: Any, database_url: str, redis_url: str) -> Work:
    return await Work.begin(pool, database_url, redis_url)


async def pruned(work: Work, kept: Retention = DAYS) -> dict[str, int]:
    """What a round removes with the application's rights; a count beforehand says the same."""
    expected = await count_prunable(work.pool, kept)
    async with asyncpg.create_pool(as_app(work.database_url), min_size=1, max_size=2) as pool:
        removed = await Pruner(pool, kept).prune_once()
    assert removed == expected
    return removed


async def ended(work: Work, items: int = 2, *, days_ago: float, sent: bool = True) -> UUID:
    """A task that ended so long ago."""
    task = await work.submit(*[{}] * items)
    async with work.pool.acquire() as connection, connection.transaction():
        await cancel_task(connection, work.workspace_id, task)
    await work.pool.execute(
        "update media_tasks set finished_at = clock_timestamp() - make_interval(secs => $2) where id = $1",
        task, days_ago * 86_400,
    )  # fmt: skip
    if sent:
        await work.pool.execute(
            "update outbox_events set published_at = clock_timestamp() where task_id = $1", task
        )
    return task


async def rows_of(work: Work, task: UUID) -> Mapping[str, int]:
    tables = ("media_tasks", "media_task_items", "media_task_attempts", "outbox_events", "drill_effects")
    column = {"media_tasks": "id"}
    return {
        table: await work.pool.fetchval(
            f"select count(*) from {table} where {column.get(table, 'task_id')} = $1", task
        )
        for table in tables
    }


async def test_a_task_goes_with_all_that_is_its_own(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROWS_A_STEP", 2)
    old, young = await ended(work, 5, days_ago=31), await ended(work, 5, days_ago=29)
    await work.pool.execute(
        "insert into drill_effects (task_id, position, attempt_id) values ($1, 1, 1)", old
    )
    await work.pool.execute(
        "insert into media_task_attempts (id, task_id, position, round, number, started_at, finished_at, outcome) "
        "select g, $1, g, 1, 1, now(), now(), 'failed' from generate_series(1, 5) g", old,
    )  # fmt: skip
    before = await rows_of(work, young)
    assert await pruned(work) == {**NOTHING, "tasks": 1, "items": 5}
    assert set((await rows_of(work, old)).values()) == {0}
    assert await rows_of(work, young) == before
    assert await work.pool.fetchval("select count(*) from pruned_tasks") == 0
    assert await pruned(work) == NOTHING


async def test_what_lives_stays_however_old_it_is(work: Work) -> None:
    """A task with an open item, with an event that was not sent, with a dead letter, with a retry that is planned."""
    open_ = await work.submit({}, {})
    unsent, dead = await ended(work, days_ago=99, sent=False), await ended(work, days_ago=99)
    planned, again = await ended(work, days_ago=99), await ended(work, days_ago=99)
    await work.pool.execute("update media_tasks set created_at = now() - interval '99 days'")
    await work.pool.execute(
        "update outbox_events set published_at = null, last_error = 'dead_lettered' where task_id = $1", dead
    )
    await work.pool.execute(
        "insert into retry_plans (task_id, code, round, canary_position, rest_items) values ($1, 'c', 1, 1, 1)",
        planned,
    )
    await work.pool.execute(  # it runs again
        "update media_tasks set finished_at = null, queued_items = 1, cancelled_items = 1 where id = $1",
        again,
    )
    assert await pruned(work) == NOTHING
    assert await work.pool.fetchval("select count(*) from media_tasks") == 5
    assert {open_, unsent, dead, planned, again}


async def put(work: Work, name: str, *, days_ago: float, key: str = "") -> None:
    """An object that was last put so long ago."""
    await work.pool.execute(
        "insert into objects (workspace_id, name, storage_key, size_bytes, sha256, content_type, kept_from) "
        "values ($1, $2, $3, 1, '', 'image/jpeg', clock_timestamp() - make_interval(secs => $4))",
        work.workspace_id, name, key or f"key-of-{name}", days_ago * 86_400,
    )  # fmt: skip


async def test_objects_go_when_they_are_old_and_nothing_open_names_them(work: Work) -> None:
    """By any place of an input, in the form in which names are kept; also what a planned retry will need."""
    for name in ("unused", "opened", "deep", "caf\u00e9", "planned", "done"):
        await put(work, name, days_ago=11)
    await put(work, "young", days_ago=9)
    await put(work, "registered", days_ago=11, key="media:archive/registered")
    await work.submit({"object": "opened"}, {"all": [{"of": ["deep"]}]}, {"object": "cafe\u0301"})
    task = await work.submit({"object": "planned"}, {"object": "done"})
    await work.pool.execute(
        "update media_task_items set state = case position when 1 then 'failed' else 'succeeded' end, attempt = 1, "
        "attempt_id = 1, error_code = case position when 1 then 'crashed' end, "
        "error_retryable = case position when 1 then true end, "
        "finished_at = now() where task_id = $1", task,
    )  # fmt: skip
    await work.pool.execute(
        "update media_tasks set queued_items = 0, failed_items = 1, succeeded_items = 1, finished_at = now() where id = $1", task
    )  # fmt: skip
    await work.pool.execute(
        "insert into retry_plans (task_id, code, round, canary_position, rest_items) values ($1, 'crashed', 2, 2, 1)",
        task,
    )
    assert (await pruned(work))["objects"] == 0, "without a retention they are kept for ever"
    assert (await pruned(work, replace(DAYS, objects_days=10)))["objects"] == 3
    left = {row["name"] for row in await work.pool.fetch("select name from objects")}
    assert left == {"opened", "deep", "caf\u00e9", "planned", "young"}
    trash = await work.pool.fetch("select storage_key, reason, remove_at - now() as due from object_trash")
    assert {(row["storage_key"], row["reason"]) for row in trash} == {
        ("key-of-unused", "pruned"), ("key-of-done", "pruned"),
    }, "registered media are not ours to remove"  # fmt: skip
    assert all(86_000 < row["due"].total_seconds() <= 86_400 for row in trash)


async def test_objects_of_a_workspace_with_very_much_to_do_wait(work: Work) -> None:
    """To know what is named, all of it would have to be read."""
    await put(work, "unused", days_ago=11)
    for _ in range(11):
        await work.submit({})
    for items, removed in ((10_000, 0), (9_000, 1)):
        await work.pool.execute("update media_tasks set total_items = $1, queued_items = $1", items)
        assert (await pruned(work, Retention(objects_days=10)))["objects"] == removed


async def test_an_object_that_is_put_again_begins_anew(
    editor: httpx.AsyncClient, work: Work, world: World, pool: Any
) -> None:
    for name in ("again", "old"):
        assert (await editor.put(f"objects/{name}", content=b"bytes")).status_code == 201
    await pool.execute("update objects set kept_from = now() - interval '11 days'")
    assert (await editor.put("objects/again", content=b"bytes")).status_code == 200
    assert (await Pruner(pool, Retention(objects_days=10)).prune_once())["objects"] == 1
    assert (await editor.get("objects/again")).content == b"bytes"
    assert (await editor.get("objects/old")).status_code == 404


async def test_a_task_that_somebody_works_on_is_stepped_over(work: Work) -> None:
    task = await ended(work, days_ago=31)
    async with work.pool.acquire() as other, other.transaction():
        await other.execute("select from media_tasks where id = $1 for no key update", task)
        assert await Pruner(work.pool, DAYS).prune_once() == NOTHING, "and it did not wait"
    assert (await pruned(work))["tasks"] == 1


async def test_events_go_a_week_after_they_were_sent(work: Work) -> None:
    live, done = await work.submit({}), await ended(work, days_ago=1)
    await work.pool.execute("update outbox_events set published_at = now() - interval '8 days'")
    unsent = await work.submit({})
    await work.pool.execute(
        "update outbox_events set created_at = now() - interval '99 days', next_attempt_at = now() - interval '99 days'"
    )
    assert (await pruned(work))["events"] == 2, "items.queued and task.ended of the task that ended"
    kept = await work.pool.fetch("select task_id from outbox_events order by id")
    assert [row["task_id"] for row in kept] == [live, unsent]
    assert (await rows_of(work, done))["media_tasks"] == 1


async def test_keys_audit_webhooks_and_workers(work: Work) -> None:
    key = (
        "insert into idempotency_keys (workspace_id, method, path, key, body_sha256, created_at) "
        "values ($1, 'POST', '/', $2, '', "
    )
    for name, hours in (("old", 25), ("young", 23)):
        await work.pool.execute(key + f"now() - interval '{hours} hours')", work.workspace_id, name)
    await work.pool.execute(
        "insert into audit_log (workspace_id, verb, target, at) select $1, 'v', d::text, now() - make_interval(days => d) "
        "from unnest(array[399, 401]) d", work.workspace_id,
    )  # fmt: skip
    endpoint = await work.pool.fetchval("select gen_random_uuid()")
    await work.pool.execute(
        "insert into webhook_endpoints (id, workspace_id, url, events, secret) values ($1, $2, 'https://a', '{task.ended}', 's')",
        endpoint, work.workspace_id,
    )  # fmt: skip
    on_its_way = await work.submit({})
    for number, (age, task) in enumerate(((31, None), (31, on_its_way), (29, None))):
        event = await work.pool.fetchval(
            "insert into webhook_events (id, workspace_id, outbox_id, type, body, created_at) "
            "values ($1, $2, $3, 'task.ended', '{}', now() - make_interval(days => $4)) returning id",
            uuid4(), work.workspace_id, number, age,
        )  # fmt: skip
        await work.pool.execute(
            "insert into webhook_deliveries (endpoint_id, event_id, task_id, position) values ($1, $2, $3, $4)",
            endpoint, event, task, None if task is None else 1,
        )  # fmt: skip
    await work.pool.execute(
        "insert into workers (boot, name, host, pid, version, queues, seen_at) select d::text, d::text, 'h', 1, '0', '{}', "
        "now() - make_interval(hours => d) from unnest(array[23, 25]) d"
    )
    assert await pruned(work) == {**NOTHING, "webhooks": 1, "audit": 1, "keys": 1}
    assert await work.pool.fetchval("select key from idempotency_keys") == "young"
    assert await work.pool.fetchval("select target from audit_log") == "399"
    assert await work.pool.fetchval("select count(*) from webhook_deliveries") == 2
    assert await work.pool.fetchval("select boot from workers") == "23"


async def test_nothing_goes_that_is_kept_for_ever_and_a_stop_ends_a_round(work: Work) -> None:
    await ended(work, days_ago=9_999)
    await work.pool.execute("update outbox_events set published_at = now() - interval '9999 days'")
    assert await pruned(work, Retention(0, 0, 0, 0)) == NOTHING
    pruner = Pruner(work.pool, DAYS)
    pruner.stop()
    assert await pruner.prune_once() == NOTHING
    assert pruner.removed() == NOTHING


async def test_a_pruned_task_is_not_there_and_others_answer_as_before(
    editor: httpx.AsyncClient, pool: Any, world: World
) -> None:
    tasks = [(await editor.post("media-tasks", json=batch(1))).json()["id"] for _ in range(2)]
    for task in tasks:
        await editor.post(f"media-tasks/{task}/cancel")
    await pool.execute("update outbox_events set published_at = now()")
    await pool.execute(
        "update media_tasks set finished_at = now() - interval '31 days' where id = $1", UUID(tasks[0])
    )
    pruner = Pruner(pool, DAYS)
    assert (await pruner.prune_once())["tasks"] == 1 and pruner.removed()["items"] == 1
    gone = [
        await editor.get(f"media-tasks/{task}{what}")
        for task in (tasks[0], str(uuid4()))
        for what in ("", "/items")
    ]
    assert {answer.status_code for answer in gone} == {404} and len({answer.text for answer in gone}) == 1
    assert (await editor.get(f"media-tasks/{tasks[1]}")).status_code == 200
    assert [one["id"] for one in (await editor.get("media-tasks")).json()["tasks"]] == [tasks[1]]


async def test_on_the_command_line(work: Work, tmp_path: Path) -> None:
    env = {
        "DATABASE_URL": work.database_url, "REDIS_URL": work.redis_url, "LINGXI_DATA_DIR": str(tmp_path),
        "RETENTION_TASKS_DAYS": "3",
    }  # fmt: skip
    await ended(work, days_ago=4)
    for asked, left in ((("--dry-run",), 1), ((), 0)):
        said = run_lingxi("prune", *asked, "--json", env=env)
        assert said.returncode == 0, said.stderr
        answer = json.loads(said.stdout.splitlines()[-1])
        assert answer == {"dryRun": bool(asked), "rows": {**NOTHING, "tasks": 1, "items": 2}}
        assert await work.pool.fetchval("select count(*) from media_tasks") == left
    audited = await work.pool.fetch("select verb, target, actor from audit_log")
    assert [tuple(row) for row in audited] == [("prune", "rows:3", None)], "counting leaves none"


async def test_over_http_by_an_operator(
    operator: httpx.AsyncClient, editor: httpx.AsyncClient, pool: Any, work: Work
) -> None:
    """What is older is told, removed at once and audited; a part at a time, and it says how much is left."""
    for _ in range(3):
        await ended(work, days_ago=31)
    shown = (await operator.get("retention")).json()["kept"]
    assert [one["kind"] for one in shown] == list(retention.KINDS)
    told = {one["kind"]: (one["keptSeconds"], one["rows"]) for one in shown}
    assert told["tasks"] == (30 * 86_400, 3) and told["items"] == (30 * 86_400, 6)
    assert told["objects"] == (None, 0), "kept for ever"
    answer = await operator.post("retention/prune")
    assert answer.json() == {"removed": {**NOTHING, "tasks": 3, "items": 6}, "left": NOTHING}
    assert await pool.fetchval("select count(*) from media_tasks") == 0
    audited = await pool.fetch(
        "select verb, target, actor is not null as by from audit_log where verb = 'prune'"
    )
    assert [tuple(row) for row in audited] == [("prune", "rows:9", True)]
    for refused in (await editor.get("retention"), await editor.post("retention/prune")):
        assert refused.status_code == 403


async def test_over_http_a_part_is_removed_and_the_rest_is_told(
    operator: httpx.AsyncClient, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TASKS_A_STEP", 1)
    monkeypatch.setattr("lingxi.api.routes.retention._STEPS", 2)
    for _ in range(3):
        await ended(work, days_ago=31)
    answer = (await operator.post("retention/prune")).json()
    assert (answer["removed"]["tasks"], answer["left"]["tasks"]) == (2, 1)
    assert (await operator.post("retention/prune")).json()["removed"]["tasks"] == 1
