"""Every "why does it wait, why did it fail" has its answer, in a word and a sentence, over HTTP and in the terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from lingxi.broker.client import api_client
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.lock import DispatchLock
from lingxi.domain.ids import item_id
from lingxi.processors.contract import Context, Permanent, Processor, ProcessorInput
from lingxi.services.photo_jobs import claim_photo_job, put_back_photo_job, put_back_stale_photo_jobs
from lingxi.services.why import Live, judge_photo
from tests.integration.api.conftest import api, editor, world
from tests.integration.api.harness import Api, World, batch
from tests.support.processes import run_lingxi
from tests.support.waiting import wait_until
from tests.support.work import Work

__all__ = ["api", "editor", "world"]


class Said(ProcessorInput):
    """Which way to fail."""

    fail: str


async def _why(editor: httpx.AsyncClient, task: Any, position: int | None = 1) -> dict[str, Any]:
    """Of the item at `position` of a task; of the task itself without one."""
    tail = "" if position is None else f"/items/{item_id(task, position)}"
    answer = await editor.get(f"media-tasks/{task}{tail}/why")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_what_an_item_waits_for_from_the_outermost_cause_inwards(
    api: Api, editor: httpx.AsyncClient, world: World, pool: Any, redis_url: str
) -> None:

    first = UUID((await editor.post("media-tasks", json=batch(2))).json()["id"])
    task = UUID((await editor.post("media-tasks", json=batch(3))).json()["id"])
    assert (await _why(editor, task))["reason"] == "noDispatcher"
    client = api_client(redis_url)
    await DispatchLock(client, 60_000).acquire()
    why = await _why(editor, task)
    assert (why["reason"], why["queue"]) == ("noWorker", "demo:drill")
    assert "QUEUE=demo" in why["sentence"]
    await Heartbeats(client).beat("demo:drill", "w", 600)
    why = await _why(editor, task, 2)
    assert (why["reason"], why["ahead"], why["aheadOwn"]) == (
        "behind",
        3,
        3,
    )  # two of the first task, one of its own
    assert (await _why(editor, first))["reason"] == "notSent"
    await pool.execute("update outbox_events set published_at = now() where task_id = $1", first)
    assert (await _why(editor, first))["reason"] == "next"
    await pool.execute("insert into workspace_caps values ($1, 1)", world.ours.workspace_id)
    await pool.execute(
        "update media_tasks set queued_items = 1, running_items = 1, started_at = now() where id = $1", first
    )
    await pool.execute(
        "update media_task_items set state = 'running', attempt = 1, attempt_id = 7, worker = 'w', started_at = now(), "
        "lease_expires_at = now() + interval '1 hour' where task_id = $1 and position = 1",
        first,
    )
    running = await _why(editor, first)
    assert (running["reason"], running["sentence"]) == ("running", "Attempt 1 of 3 runs on worker w.")
    assert [one["outcome"] for one in running["attempts"]] == ["running"]
    assert (await _why(editor, task))["reason"] == "cap"
    await pool.execute(
        "update outbox_events set last_error = 'dead_lettered', error_detail = 'there is no queue' where task_id = $1",
        task,
    )
    dead = await _why(editor, task)
    assert (dead["reason"], "there is no queue" in dead["sentence"]) == ("deadLetter", True)
    assert (await _why(editor, task, None))["reason"] == "deadLetter"
    await client.aclose()


async def test_what_failed_says_why_and_whether_a_retry_can_help(
    api: Api, editor: httpx.AsyncClient, world: World, pool: Any
) -> None:

    task = UUID((await editor.post("media-tasks", json=batch(4))).json()["id"])
    for position, (code, retryable) in enumerate(
        [("corrupt_image", False), ("crashed", True), ("corrupt_image", False)], 1
    ):
        await pool.execute(
            "update media_task_items set state = 'failed', attempt = 3, attempt_id = 5, error_code = $3, "
            "error_message = 'Sorry', error_retryable = $4, finished_at = now() where task_id = $1 and position = $2",
            task, position, code, retryable,
        )  # fmt: skip
    await pool.execute(
        "insert into media_task_attempts values (5, $1, 2, 1, 3, 'w', now(), now(), 'failed', 'crashed', 'Sorry.', true)",
        task,
    )
    await pool.execute("update media_tasks set queued_items = 1, failed_items = 3 where id = $1", task)
    one = await _why(editor, task, 2)
    assert (one["reason"], one["canRetry"], one["error"]["code"]) == ("failed", True, "crashed")
    assert "with crashed: Sorry. Running it again can help." in one["sentence"]
    assert [(at["worker"], at["error"]["code"]) for at in one["attempts"]] == [("w", "crashed")]
    assert (await _why(editor, task, 1))["canRetry"] is False
    whole = await _why(editor, task, None)
    assert (
        "2 × corrupt_image, 1 × crashed" in whole["sentence"]
        and "The first that waits: " in whole["sentence"]
    )
    assert [(cause["items"], cause["code"], cause["firstIndex"]) for cause in whole["causes"]] == [
        (2, "corrupt_image", 0), (1, "crashed", 1), (1, None, 3),
    ]  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "lingxi",
        "why",
        str(task),
        "--url",
        api.url,
        "--token",
        world.ours.viewer,
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0
    assert "2 × corrupt_image, 1 × crashed" in said and "A RETRY CAN HELP" in said


async def test_an_attempt_that_failed_shows_the_last_lines_of_its_log(
    api: Api,
    editor: httpx.AsyncClient,
    world: World,
    pool: Any,
    database_url: str,
    redis_url: str,
) -> None:
    async def run(context: Context, given: Said) -> None:
        for number in range(30):
            context.log.info("step_done", number=number)
        if given.fail == "bug":
            raise ValueError("a secret of somebody else")
        raise Permanent("no_luck", "told to")

    processor = Processor(name="demo:drill", input_model=Said, run=run, max_attempts=2, backoff_seconds=0.1)
    work = Work(pool, database_url, redis_url, world.ours.workspace_id, {"demo:drill": processor})
    task = await work.submit({"fail": "bug"}, {"fail": "permanent"}, {"fail": "permanent"}, max_attempts=2)
    async with work.dispatching(), work.worker():
        await work.ended(task)

        async def kept() -> Any:
            query = "select count(*) from media_task_attempts where task_id = $1 and log_lines is not null"
            return await pool.fetchval(query, task) == 4

        await wait_until(kept, 20, "the lines are kept")
    attempts = (await _why(editor, task, 1))["attempts"]
    assert len(attempts) == 2
    for attempt in attempts:
        assert len(attempt["logLines"]) == 20
        assert attempt["logLines"][-2].endswith("info step_done number=29")
        assert " error processor_raised ValueError in run, line " in attempt["logLines"][-1]
        assert "secret" not in str(attempt["logLines"])
    second = (await _why(editor, task, 2))["attempts"][0]["logLines"]
    assert [line.rpartition("=")[2] for line in second] == [str(number) for number in range(10, 30)], (
        "its own only"
    )
    command = ("why", str(item_id(task, 1)), "--url", api.url, "--token", world.ours.viewer)
    said = await asyncio.to_thread(run_lingxi, *command, env={})
    assert "Attempt 2 of round 1 logged:" in said.stderr + said.stdout
    assert "processor_raised ValueError in run" in said.stderr + said.stdout


async def test_another_workspace_is_told_nothing(api: Api, editor: httpx.AsyncClient, world: World) -> None:
    task = (await editor.post("media-tasks", json=batch(1))).json()["id"]
    async with api.client(world.theirs.admin) as stranger:
        for path in (f"media-tasks/{task}/why", f"media-tasks/{task}/items/{task[:-1]}1/why"):
            assert (await stranger.get(path)).status_code == 404
    for path in (f"media-tasks/{task}/items/{uuid4()}/why", f"photos/{uuid4()}/why", "photos/x/why"):
        assert (await editor.get(path)).status_code == 404


UP = Live(True, 1.0, True)
PENDING = {
    "hold_state": None,
    "processing_state": "uploaded", "visibility": "unpublished", "error_code": None, "state": "pending", "attempt": 0,
    "worker": None, "last_error": None, "due_in_seconds": None, "ahead": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "live", "reason", "can_retry"),
    [
        ({}, UP, "next", None),
        ({"ahead": 4}, UP, "behind", None),
        ({}, Live(True, None, True), "noWorker", None),
        ({}, Live(True, 61.0, True), "noWorker", None),
        ({}, Live(True, 1.0, False), "noDispatcher", None),
        ({}, Live(False, None, False), "redisAway", None),
        ({"due_in_seconds": 20.0, "last_error": "crashed"}, Live(False, None, False), "backoff", None),
        ({"state": "active"}, UP, "running", None),
        ({"processing_state": "ready"}, UP, "succeeded", None),
        ({"processing_state": "processing_failed", "error_code": "corrupt_image"}, UP, "failed", False),
        ({"processing_state": "processing_failed", "error_code": "decode_timeout"}, UP, "failed", True),
    ],
)
def test_why_a_photo_is_not_there(
    change: dict[str, Any], live: Live, reason: str, can_retry: bool | None
) -> None:
    why = judge_photo({**PENDING, **change}, live)
    assert (why.reason, why.can_retry) == (reason, can_retry)


async def test_a_photo_over_http(api: Api, editor: httpx.AsyncClient, world: World, pool: Any) -> None:
    album, photo = uuid4(), uuid4()
    await pool.execute(
        "insert into albums (id, workspace_id, name) values ($1, $2, 'A')", album, world.ours.workspace_id
    )
    await pool.execute(
        "insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256, "
        "content_type, last_seq) values ($1, $2, $3, 1, 'a.jpg', 'k', 1, '\\x00', 'image/jpeg', 1)",
        photo, world.ours.workspace_id, album,
    )  # fmt: skip
    await pool.execute("insert into photo_jobs (photo_id) values ($1)", photo)
    async with pool.acquire() as connection:
        for wait, again in ((60.0, True), (0.0, False), (0.0, True)):
            claim = await claim_photo_job(connection, photo, "w-1")
            assert claim is not None
            assert await put_back_photo_job(
                connection, claim, error="storage_unavailable" if again else None, retry_after_seconds=0, charged=again,
                lines=["14:03:07 warning disk_slow"] if wait else [],
            )  # fmt: skip
        assert await claim_photo_job(connection, photo, "w-2") is not None
        assert await put_back_stale_photo_jobs(connection, limit=9, worker="w-2") == [photo]
    answer = (await editor.get(f"photos/{photo}/why")).json()
    assert (answer["kind"], answer["queue"], answer["reason"]) == ("photo", "photo:process", "noDispatcher")
    told = [
        (one["round"], one["number"], one["worker"], one["outcome"], (one["error"] or {}).get("code"))
        for one in answer["attempts"]
    ]
    assert told == [
        (1, 1, "w-1", "retrying", "storage_unavailable"),
        (1, 2, "w-1", "released", None),
        (1, 2, "w-1", "retrying", "storage_unavailable"),
        (1, 3, "w-2", "lost", "worker_lost"),
    ]
    assert all(one["startedAt"] <= one["finishedAt"] for one in answer["attempts"])
    assert [one["logLines"] for one in answer["attempts"]] == [["14:03:07 warning disk_slow"], [], [], []]
