"""Idempotency-Key: one task, equal answers, nothing written twice, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import httpx
import pytest

from lingxi.observability import failpoints
from tests.integration.api.harness import Api, World, batch, open_api, row_counts
from tests.support.processes import environment

KEY = {"Idempotency-Key": "order-17"}


async def test_fifty_at_once_over_two_servers_make_one_task(
    database_url: str, redis_url: str, pool: Any, world: World, tmp_path: Path
) -> None:
    async with (
        open_api(database_url, redis_url, tmp_path, pool_size=3) as one,
        open_api(database_url, redis_url, tmp_path, pool_size=3) as two,
        one.client(world.ours.editor) as at_one,
        two.client(world.ours.editor) as at_two,
    ):
        clients = [at_one, at_two] * 25
        answers = await asyncio.gather(*(c.post("media-tasks", json=batch(20), headers=KEY) for c in clients))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    counts = await row_counts(pool)
    assert (counts["media_tasks"], counts["media_task_items"], counts["outbox_events"]) == (1, 20, 1)
    assert (counts["audit_log"], counts["idempotency_keys"]) == (1, 1)


async def test_reordered_and_spaced_replays_and_writes_no_row(editor: httpx.AsyncClient, pool: Any) -> None:
    body = {
        "type": "demo:drill",
        "items": [{"ref": "a", "input": {"durationMs": 1, "steps": 2}}],
        "metadata": {"x": 1, "y": 2},
    }
    first = await editor.post("media-tasks", json=body, headers=KEY)
    before = await row_counts(pool)
    turned = {
        "metadata": {"y": 2, "x": 1},
        "items": [{"input": {"steps": 2, "durationMs": 1}, "ref": "a"}],
        "type": "demo:drill",
    }
    again = await editor.post(
        "media-tasks",
        content=json.dumps(turned, indent=3),
        headers={**KEY, "Content-Type": "application/json"},
    )
    assert (again.status_code, again.content, again.headers["location"]) == (
        202,
        first.content,
        first.headers["location"],
    )
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert await row_counts(pool) == before


async def test_another_body_is_refused(editor: httpx.AsyncClient, pool: Any) -> None:
    await editor.post("media-tasks", json=batch(1), headers=KEY)
    before = await row_counts(pool)
    for other in (batch(2), {"type": "no:such", "items": []}):  # a used key is looked at before the schema
        answer = await editor.post("media-tasks", json=other, headers=KEY)
        assert (answer.status_code, answer.json()["code"]) == (409, 40902)
    assert await row_counts(pool) == before


async def test_a_refused_request_keeps_the_key_free(editor: httpx.AsyncClient) -> None:
    refused = await editor.post(
        "media-tasks", json={"type": "no:such", "items": [{"input": {}}]}, headers=KEY
    )
    assert (refused.status_code, refused.json()["code"]) == (422, 40001)
    task = (await editor.post("media-tasks", json=batch(1))).json()
    steer = f"media-tasks/{task['id']}/retry-failed"
    assert (
        await editor.post(steer, headers=KEY)
    ).status_code == 409  # refused by the state, inside the transaction
    accepted = await editor.post("media-tasks", json=batch(1), headers=KEY)
    assert (accepted.status_code, "idempotent-replayed" in accepted.headers) == (202, False)


async def test_keys_belong_to_workspace_method_and_path(api: Api, world: World) -> None:
    async with api.client(world.ours.editor) as ours, api.client(world.theirs.editor) as theirs:
        mine = await ours.post("media-tasks", json=batch(1), headers=KEY)
        other = await theirs.post("media-tasks", json=batch(1), headers=KEY)
        assert mine.json()["id"] != other.json()["id"]
        assert "idempotent-replayed" not in other.headers
        cancelled = await ours.post(f"media-tasks/{mine.json()['id']}/cancel", headers=KEY)
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    async with api.client(world.ours.admin) as colleague:  # the workspace's key, whoever uses it
        again = await colleague.post("media-tasks", json=batch(1), headers=KEY)
        assert again.content == mine.content


async def test_cancel_and_retry_replay(editor: httpx.AsyncClient, pool: Any) -> None:
    task = (await editor.post("media-tasks", json=batch(3))).json()
    path = f"media-tasks/{task['id']}/cancel"
    first = await editor.post(path, headers=KEY)
    before = await row_counts(pool)
    again = await editor.post(path, content=b" { } ", headers={**KEY, "Content-Type": "application/json"})
    assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
    assert await row_counts(pool) == before
    assert (await editor.post(path)).status_code == 200  # without a key it is a request of its own
    assert (await row_counts(pool))["audit_log"] == before["audit_log"] + 1


async def test_a_used_key_comes_before_a_body_that_should_be_empty(
    editor: httpx.AsyncClient, pool: Any
) -> None:
    task = (await editor.post("media-tasks", json=batch(3))).json()
    path = f"media-tasks/{task['id']}/cancel"
    refused = await editor.post(path, json={"why": "rain"}, headers=KEY)
    assert (refused.status_code, refused.json()["code"]) == (422, 40001)
    assert (
        await editor.post(path, headers=KEY)
    ).status_code == 200  # what was refused does not use up the key
    before = await row_counts(pool)
    reused = await editor.post(path, json={"why": "rain"}, headers=KEY)
    assert (reused.status_code, reused.json()["code"]) == (409, 40902)
    assert await row_counts(pool) == before


async def test_two_retries_at_once_with_one_key_make_one_round(editor: httpx.AsyncClient, pool: Any) -> None:
    task = (await editor.post("media-tasks", json=batch(4))).json()
    await _fail_all(pool, task["id"])
    path = f"media-tasks/{task['id']}/retry-failed"
    answers = await asyncio.gather(*(editor.post(path, headers=KEY) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert {answer.json()["round"] for answer in answers} == {2}
    assert len({answer.content for answer in answers}) == 1


async def test_a_key_is_forgotten_after_a_day(editor: httpx.AsyncClient, pool: Any) -> None:
    first = await editor.post("media-tasks", json=batch(1), headers=KEY)
    await pool.execute("update idempotency_keys set created_at = created_at - interval '24 hours 1 second'")
    later = await editor.post("media-tasks", json=batch(2), headers=KEY)
    assert (later.status_code, later.json()["id"] != first.json()["id"]) == (202, True)
    again = await editor.post("media-tasks", json=batch(2), headers=KEY)
    assert again.content == later.content


_MALFORMED_KEYS = [b"", b"two words", b"k" * 256, "ключ".encode(), b"caf\xe9", b"tab\there", b"\x7f"]


async def test_malformed_keys(editor: httpx.AsyncClient, pool: Any) -> None:
    for key in _MALFORMED_KEYS:
        before = await row_counts(pool)
        headers = [(b"Idempotency-Key", key), (b"Content-Type", b"application/json")]
        answer = await editor.post("media-tasks", content=json.dumps(batch(1)), headers=headers)
        assert answer.status_code == 400
        assert answer.json()["code"] in (
            (40002,) if key != b"\x7f" else (40001, 40002)
        )  # the server's parser refuses some itself
        assert await row_counts(pool) == before


async def test_a_key_given_twice_and_the_longest_key(editor: httpx.AsyncClient) -> None:
    twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    assert (await editor.post("media-tasks", json=batch(1), headers=twice)).json()["code"] == 40002
    longest = {"Idempotency-Key": "!~" * 127 + "x"}
    assert (await editor.post("media-tasks", json=batch(1), headers=longest)).status_code == 202
    assert (await editor.post("media-tasks", json=batch(1), headers=longest)).headers[
        "idempotent-replayed"
    ] == "true"


_AN_ERROR_BEFORE_THE_COMMIT_LEAVES_NOTHING = ["api.before_insert", "api.after_insert", "api.before_commit"]


async def test_an_error_before_the_commit_leaves_nothing(editor: httpx.AsyncClient, pool: Any) -> None:
    for point in _AN_ERROR_BEFORE_THE_COMMIT_LEAVES_NOTHING:
        before = await row_counts(pool)
        failpoints.arm(f"{point}=error@1")
        try:
            broken = await editor.post("media-tasks", json=batch(2), headers={"Idempotency-Key": point})
        finally:
            failpoints.disarm()
        assert (broken.status_code, broken.json()["code"]) == (500, 50001)
        assert await row_counts(pool) == before
        answer = await editor.post("media-tasks", json=batch(2), headers={"Idempotency-Key": point})
        assert (answer.status_code, "idempotent-replayed" in answer.headers) == (202, False)


_SERVER = """
    import asyncio, sys
    from pathlib import Path
    from lingxi.observability import failpoints
    from tests.integration.api.harness import open_api

    async def main():
        failpoints.arm(sys.argv[4])
        async with open_api(sys.argv[1], sys.argv[2], Path(sys.argv[3])) as api:
            print(api.url, flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("point", "left"), [("api.after_insert", 0), ("api.before_commit", 0), ("api.after_commit", 1)]
)
async def test_a_server_killed_in_mid_request(
    api: Api,
    database_url: str,
    redis_url: str,
    pool: Any,
    world: World,
    tmp_path: Path,
    point: str,
    left: int,
) -> None:
    """Before the commit nothing is left; after it the answer is remembered. The same key then gives one task."""
    arguments = [
        "-c",
        textwrap.dedent(_SERVER),
        database_url,
        redis_url,
        str(tmp_path / "killed"),
        f"{point}=kill",
    ]
    root = str(Path(__file__).parents[3])
    env = environment()
    env["PYTHONPATH"] += f":{root}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    before = await row_counts(pool)
    auth = {"Authorization": f"Bearer {world.ours.editor}", **KEY}
    async with httpx.AsyncClient(base_url=url + "/api/v1/") as client:
        with pytest.raises(httpx.TransportError):
            await client.post("media-tasks", json=batch(2), headers=auth)
    assert await process.wait() == -9
    async with api.client(world.ours.editor) as editor:
        answer = await editor.post("media-tasks", json=batch(2), headers=KEY)
        assert answer.status_code == 202
        assert ("idempotent-replayed" in answer.headers) == bool(left)
    after = await row_counts(pool)
    added = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert added == {
        "media_tasks": 1,
        "media_task_items": 2,
        "outbox_events": 1,
        "audit_log": 1,
        "idempotency_keys": 1,
    }


async def _fail_all(pool: Any, task_id: str) -> None:
    from uuid import UUID

    from lingxi.domain.decide import Decision
    from lingxi.services.claim_items import ItemKey, claim_items
    from lingxi.services.finish_items import Ending, finish_items

    task = UUID(task_id)
    failed = Decision("failed", error_code="drill_failed", error_message="told to", error_retryable=False)
    async with pool.acquire() as c, c.transaction():
        count = await c.fetchval("select total_items from media_tasks where id = $1", task)
        keys = [ItemKey(task, position) for position in range(1, count + 1)]
        claims = await claim_items(
            c, "demo:drill", keys, worker="w", lease_seconds=60, time_limit_seconds=600
        )
        await finish_items(c, [Ending(claim.key, claim.fence, failed) for claim in claims])
