"""Failed items are run again by their cause: only some codes, or first one of each, with the rest after those that succeeded."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from lingxi.broker.client import api_client
from lingxi.broker.hints import Hints
from lingxi.broker.marker import WipeMarker
from lingxi.maintenance.sweeper import Sweeper
from lingxi.observability import failpoints
from lingxi.processors.contract import Context, Permanent, Processor, ProcessorInput
from lingxi.services.retry_plans import advance_retry_plans
from tests.integration.api.harness import Api, World
from tests.support.processes import run_lingxi
from tests.support.soundness import violations
from tests.support.waiting import wait_until
from tests.support.work import Work

CAUSES = ("disk_full", "disk_full", "disk_full", "bad_name", "bad_name", "no_reason", "")


class Input(ProcessorInput):
    fail_code: str = ""


@pytest.fixture
def broken() -> set[str]:
    """Codes whose cause is still there."""
    return set(CAUSES) - {""}


@pytest.fixture
async def work(pool: Any, database_url: str, redis_url: str, world: World, broken: set[str]) -> Any:
    """Workers whose items fail with the code that they name, for as long as its cause is there."""

    async def run(context: Context, given: Input) -> None:
        if given.fail_code in broken:
            raise Permanent(given.fail_code, "told to")

    processor = Processor(name="demo:drill", input_model=Input, run=run)
    yield Work(pool, database_url, redis_url, world.ours.workspace_id, {"demo:drill": processor})
    assert await violations(database_url) == []


async def failed_task(work: Work, causes: Any = CAUSES) -> UUID:
    """A task that has run once, with one item for each of `causes`."""
    task = await work.submit(*({"failCode": cause} for cause in causes))
    async with work.dispatching(), work.worker():
        await work.ended(task)
    return task


async def plan(editor: httpx.AsyncClient, task: UUID) -> dict[str, tuple[int, int, str]]:
    found = (await editor.get(f"media-tasks/{task}/why")).json()["plan"]
    return {one["code"]: (one["canaryIndex"], one["rest"], one["state"]) for one in found}


async def decided(editor: httpx.AsyncClient, task: UUID) -> dict[str, str]:
    async def now() -> dict[str, str] | None:
        states = {code: state for code, (_, _, state) in (await plan(editor, task)).items()}
        return None if "waiting" in states.values() else states

    found: dict[str, str] = await wait_until(now, 20, "the plan is decided")
    return found


async def sweep(work: Work) -> int:
    """One sweep; of how many tasks something was decided."""
    client = api_client(work.redis_url)
    try:
        return (await Sweeper(work.pool, {}, WipeMarker(client), Hints(client)).run_once()).planned
    finally:
        await client.aclose()


async def retry(editor: httpx.AsyncClient, task: UUID, **choice: Any) -> httpx.Response:
    return await editor.post(f"media-tasks/{task}/retry-failed", json=choice)


async def test_only_what_failed_with_a_code_runs_again(
    editor: httpx.AsyncClient, work: Work, broken: set[str]
) -> None:
    task = await failed_task(work)
    answer = await retry(editor, task, only=["bad_name", "no_reason"])
    assert answer.status_code == 202
    counts = answer.json()["counts"]
    assert (answer.json()["round"], counts["queued"], counts["failed"]) == (2, 3, 3)
    broken.clear()
    async with work.dispatching(), work.worker():
        assert (await work.ended(task))["status"] == "partially_failed"
    assert Counter(await work.states(task)) == {"succeeded": 4, "failed": 3}
    refused = await retry(editor, task, only=["bad_name"])
    assert (refused.status_code, refused.json()["code"]) == (409, 40901)
    assert "with one of these codes" in refused.json()["detail"]
    assert (await retry(editor, task)).status_code == 202
    async with work.dispatching(), work.worker():
        assert (await work.ended(task))["status"] == "succeeded"


async def test_the_rest_follows_each_canary_that_succeeded_and_no_other(
    editor: httpx.AsyncClient, work: Work, broken: set[str]
) -> None:
    task = await failed_task(work)
    answer = await retry(editor, task, canary=True)
    assert (answer.status_code, answer.json()["counts"]["queued"]) == (202, 3), "one of each code"
    assert await plan(editor, task) == {
        "disk_full": (0, 2, "waiting"),
        "bad_name": (3, 1, "waiting"),
        "no_reason": (5, 0, "waiting"),
    }
    broken.discard("disk_full")
    async with work.dispatching(), work.worker():
        states = await decided(editor, task)
        assert states == {"disk_full": "followed", "bad_name": "stopped", "no_reason": "stopped"}
        ended = await work.ended(task)
    assert (ended["round"], ended["status"]) == (3, "partially_failed")
    items = await work.items(task)
    assert [item["state"] for item in items] == ["succeeded"] * 3 + ["failed"] * 3 + ["succeeded"]
    assert [item["round"] for item in items] == [2, 3, 3, 2, 1, 2, 1]
    assert await work.pool.fetchval("select count(*) from audit_log where verb = 'task.retry_failed'") == 1


async def test_a_canary_that_failed_with_the_code_of_one_that_succeeded_is_not_tried_again(
    editor: httpx.AsyncClient, work: Work
) -> None:
    """What follows are those that the canaries' round left alone."""
    task = await failed_task(work)
    assert (await retry(editor, task, canary=True)).status_code == 202

    async def run(context: Context, given: Input) -> None:
        if given.fail_code == "bad_name":
            raise Permanent("disk_full", "another cause than before")

    work.processors = {"demo:drill": Processor(name="demo:drill", input_model=Input, run=run)}
    async with work.dispatching(), work.worker():
        assert (await decided(editor, task))["bad_name"] == "stopped"
        await work.ended(task)
    items = await work.items(task)
    assert [item["round"] for item in items] == [2, 3, 3, 2, 1, 2, 1]
    assert items[3]["error_code"] == "disk_full"


async def test_the_rest_follows_though_client_and_dispatcher_died_at_that_moment(
    editor: httpx.AsyncClient, work: Work, broken: set[str], tmp_path: Path
) -> None:
    """The dispatcher dies between telling the end and looking at the plan; nobody else knows of it but the rows."""
    task = await failed_task(work)
    await retry(editor, task, canary=True)
    broken.clear()
    async with work.worker():
        failpoints.arm("outbox.after_commit=error", tmp_path)
        try:
            async with work.dispatching():
                row = await work.ended(task)
                await wait_until(lambda: _told(work, task, row["round"]), 20, "the end is told")
            assert {state for _, _, state in (await plan(editor, task)).values()} == {"waiting"}
        finally:
            failpoints.disarm()
        assert await sweep(work) == 1
        assert set((await decided(editor, task)).values()) == {"followed"}
        async with work.dispatching():
            assert (await work.ended(task))["status"] == "succeeded"
    assert await sweep(work) == 0


async def _told(work: Work, task: UUID, round: int) -> bool:
    query = "select published_at is not null from outbox_events where task_id = $1 and round = $2 and type = 'task.ended'"
    return bool(await work.pool.fetchval(query, task, round))


async def test_a_round_that_somebody_else_began_ends_the_plan(
    editor: httpx.AsyncClient, work: Work, broken: set[str]
) -> None:
    task = await failed_task(work, ["disk_full"] * 4)
    await retry(editor, task, canary=True)
    async with work.dispatching(), work.worker():
        await decided(editor, task)
    await work.pool.execute(
        "update retry_plans set state = 'waiting', decided_at = null"
    )  # nobody has looked
    broken.clear()
    await work.pool.execute("select retry_failed($1, $2, 1000)", work.workspace_id, task)
    assert await sweep(work) == 1
    assert await decided(editor, task) == {"disk_full": "overtaken"}
    async with work.dispatching(), work.worker():
        ended = await work.ended(task)
    assert (ended["round"], ended["status"]) == (3, "succeeded"), "and no fourth round"


async def test_a_canary_that_is_cancelled_is_followed_by_nothing(
    editor: httpx.AsyncClient, work: Work, broken: set[str]
) -> None:
    task = await failed_task(work, ["disk_full"] * 3)
    await retry(editor, task, canary=True)
    assert (await editor.post(f"media-tasks/{task}/cancel")).json()["status"] == "cancelled"
    broken.clear()
    async with work.dispatching(), work.worker():
        assert await decided(editor, task) == {"disk_full": "stopped"}
    assert await work.states(task) == ["cancelled", "failed", "failed"]


async def test_many_that_look_at_once_begin_one_round(
    editor: httpx.AsyncClient, work: Work, broken: set[str], tmp_path: Path
) -> None:
    task = await failed_task(work, ["disk_full"] * 3)
    await retry(editor, task, canary=True)
    broken.clear()
    failpoints.arm("outbox.after_commit=error", tmp_path)  # the dispatcher decides nothing
    try:
        async with work.dispatching(), work.worker():
            await work.ended(task)
    finally:
        failpoints.disarm()

    async def look() -> int:
        async with work.pool.acquire() as connection, connection.transaction():
            return len(await advance_retry_plans(connection))

    assert sum(await asyncio.gather(*(look() for _ in range(4)))) == 1
    async with work.dispatching(), work.worker():
        assert (await work.ended(task))["round"] == 3


async def test_a_choice_that_breaks_the_schema_is_refused(editor: httpx.AsyncClient, work: Work) -> None:
    task = await failed_task(work, ["disk_full"])
    for choice in (
        {"only": []},
        {"only": ["Bad Code"]},
        {"only": "disk_full"},
        {"canary": 1},
        {"first": 1},
        [],
    ):
        answer = await editor.post(f"media-tasks/{task}/retry-failed", json=choice)
        assert (answer.status_code, answer.json()["code"]) == (422, 40001), choice
    assert (await work.task(task))["round"] == 1


async def test_a_key_belongs_to_a_choice(editor: httpx.AsyncClient, work: Work) -> None:
    task = await failed_task(work)
    headers = {"Idempotency-Key": "again"}
    path = f"media-tasks/{task}/retry-failed"
    first = await editor.post(path, json={"canary": True}, headers=headers)
    second = await editor.post(path, json={"canary": True}, headers=headers)
    assert (first.status_code, second.status_code, second.json()) == (202, 202, first.json())
    assert (await editor.post(path, headers=headers)).json()["code"] == 40902


async def test_on_the_command_line(
    api: Api, editor: httpx.AsyncClient, work: Work, world: World, broken: set[str]
) -> None:
    task = await failed_task(work, ["disk_full"] * 3 + ["bad_name"] * 2)
    where = ("--url", api.url, "--token", world.ours.editor)
    why = await asyncio.to_thread(run_lingxi, "why", str(task), *where, env={})
    assert "3 × disk_full, 2 × bad_name" in why.stdout
    broken.clear()
    async with work.dispatching(), work.worker():
        command = ("retry-failed", str(task), "--only", "disk_full", "--canary", "--watch", *where)
        said = await asyncio.to_thread(run_lingxi, *command, env={})
    assert said.returncode == 1, "the two others are as they were"
    assert (
        "disk_full: item 0 runs first; the other 2 with this code follow when it succeeded."
        in said.stderr + said.stdout
    )
    assert "disk_full: item 0 succeeded, and the other 2 followed." in said.stderr + said.stdout
    assert await work.states(task) == ["succeeded"] * 3 + ["failed"] * 2
    said = await asyncio.to_thread(
        run_lingxi, "retry-failed", str(task), "--only", "bad_name", "--json", *where, env={}
    )
    assert json.loads(said.stdout)["counts"]["queued"] == 2
