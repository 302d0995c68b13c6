"""The pipeline on real servers: items run once, end truthfully, and leave nothing behind in Redis."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import orjson
import redis.asyncio

from lingxi import names
from lingxi.broker.client import worker_client
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.stats import FinishedCounts
from lingxi.domain.ids import item_id
from lingxi.processors.contract import Context, Processor
from lingxi.processors.demo_drill import Input
from tests.support.waiting import wait_until
from tests.support.work import Work, drills


async def test_a_batch_succeeds_once_each_and_leaves_redis_empty(work: Work) -> None:
    task_id = await work.submit(*drills(500, effect=True))
    async with work.worker():
        task = await work.ended(task_id)
        assert task["status"] == "succeeded"
        assert task["last_seq"] == 1 + 2 * 500 + 1  # created, claim and finish of each, the end
        assert {item["attempt"] for item in await work.items(task_id)} == {1}
        assert await work.effects(task_id) == 500
        await work.queue_empty()


async def test_transient_errors_are_tried_again_and_permanent_ones_are_not(work: Work) -> None:
    task_id = await work.submit(
        {"fail": "transient", "failTimes": 2},
        {"fail": "permanent"},
        {"fail": "transient"},
        {"fail": "bug", "failTimes": 1},
    )
    async with work.worker():
        task = await work.ended(task_id)
    assert task["status"] == "partially_failed"
    recovered, refused, exhausted, bug = await work.items(task_id)
    assert (recovered["state"], recovered["attempt"], json.loads(recovered["result"])["attempt"]) == (
        "succeeded",
        3,
        3,
    )
    assert (refused["state"], refused["attempt"], refused["error_retryable"]) == ("failed", 1, False)
    assert (exhausted["state"], exhausted["attempt"], exhausted["error_retryable"]) == ("failed", 3, True)
    assert exhausted["error_code"] == "drill_failed"
    assert bug["state"] == "succeeded"
    outcomes = [row["outcome"] for row in await work.attempts(task_id, 3)]
    assert outcomes == ["retrying", "retrying", "failed"]
    assert (await work.attempts(task_id, 4))[0]["error_code"] == "internal_error"


async def test_a_retried_item_whose_old_job_is_still_kept_in_redis_really_runs(work: Work) -> None:
    task_id = await work.submit({"fail": "permanent"}, {})
    kept = f"1-{item_id(task_id, 1)}"
    async with work.worker():
        await work.ended(task_id)
        old = await work.pool.fetchval(
            "select id from outbox_events where task_id = $1 order by id limit 1", task_id
        )
        kept = f"{old}-{item_id(task_id, 1)}"
        async with redis.asyncio.from_url(
            work.redis_url
        ) as client:  # as a foreign client or an older version keeps it
            prefix = f"bull:{names.physical_queue('demo:drill')}:"
            await client.hset(prefix + kept, mapping={"name": "item", "data": "{}", "timestamp": "1"})
            await client.zadd(prefix + "failed", {kept: 1})
        await work.pool.execute("update media_task_items set input = '{}' where task_id = $1", task_id)
        await work.retry_failed(task_id)
        task = await work.ended(task_id)
    assert (task["status"], task["round"]) == ("succeeded", 2)
    first = (await work.items(task_id))[0]
    assert (first["state"], first["round"], first["attempt"]) == ("succeeded", 2, 1)


async def test_the_same_job_twice_runs_its_item_once(work: Work) -> None:
    task_id = await work.submit({"durationMs": 150, "effect": True})
    data = {"v": 1, "eventId": "7", "taskId": str(task_id), "itemId": str(item_id(task_id, 1))}
    async with work.worker():
        for number in range(5):
            await work.add_job(f"{number}-{item_id(task_id, 1)}", data)
        await work.ended(task_id)
        await work.add_job(f"9-{item_id(task_id, 1)}", data)  # for an item that is final
        await work.queue_empty()
    item = (await work.items(task_id))[0]
    assert (item["attempt"], await work.effects(task_id)) == (1, 1)
    assert (await work.queue_lengths())["failed"] == 0


async def test_jobs_that_name_no_item_of_the_queue_fail_as_foreign(work: Work) -> None:
    other = await work.submit({}, type="media:verify")
    task_id = uuid4()
    names_nothing = {"v": 1, "eventId": "1", "taskId": str(task_id), "itemId": str(item_id(other, 1))}
    of_another_type = {"v": 1, "eventId": "1", "taskId": str(other), "itemId": str(item_id(other, 1))}
    unknown = {"v": 1, "eventId": "1", "taskId": str(item_id(other, 0)), "itemId": str(item_id(other, 9))}
    async with work.worker():
        for number, data in enumerate([names_nothing, of_another_type, unknown, "not json", "[]", "{}"]):
            await work.add_job(f"foreign-{number}", data)

        async def all_failed() -> bool:
            return (await work.queue_lengths())["failed"] == 6

        await wait_until(all_failed)
        async with redis.asyncio.from_url(work.redis_url) as client:
            reason = await client.hget("bull:demo-drill:foreign-1", "failedReason")
        assert reason in (b"foreign_job", b'"foreign_job"')
    assert await work.states(other) == ["queued"]


async def test_a_job_of_a_newer_version_is_given_back_uncharged(work: Work) -> None:
    task_id = await work.submit({})
    await work.pool.execute("update outbox_events set published_at = now() where task_id = $1", task_id)
    data = {"v": 2, "eventId": "1", "taskId": str(task_id), "itemId": str(item_id(task_id, 1))}
    async with work.worker() as worker:
        await work.add_job("1-newer", data)

        async def taken() -> bool:
            return (await work.queue_lengths())["active"] == 1

        await wait_until(taken)
        worker.ask_to_stop()
    assert await work.states(task_id) == ["queued"]
    lengths = await work.queue_lengths()
    assert lengths["wait"] + lengths["prioritized"] == 1
    assert lengths["failed"] == 0


async def test_one_impossible_result_fails_its_own_item_only(work: Work) -> None:
    """Too large, with a NUL, no JSON at all, and one that only PostgreSQL can refuse."""
    results: dict[int, Any] = {
        7: {"text": "x" * 70_000},
        8: {"text": "a\x00b"},
        9: {"text": "back\\u0000slash"},
        10: {"when": object()},
        11: {"text": "\ud800"},
        12: {"number": orjson.Fragment(b"1e200000")},
        13: "no object",
    }

    async def run(context: Context, given: Input) -> Any:
        return results.get(context.item.index, {"fine": True})

    work.processors["demo:drill"] = Processor(name="demo:drill", input_model=Input, run=run, concurrency=50)
    task_id = await work.submit(*drills(40))
    async with work.worker() as worker:
        task = await work.ended(task_id)
        assert worker.consumers[0].finisher.counts["accepted"] == 40
    assert (task["succeeded_items"], task["failed_items"]) == (34, 6)
    items = await work.items(task_id)
    assert {i: item["error_code"] for i, item in enumerate(items) if item["state"] == "failed"} == {
        7: "result_too_large",
        8: "result_invalid",
        10: "result_invalid",
        11: "result_invalid",
        12: "result_invalid",
        13: "result_invalid",
    }
    assert json.loads(items[9]["result"])["text"] == "back\\u0000slash"


async def test_the_counts_of_the_last_hour_follow_the_commits(work: Work) -> None:
    task_id = await work.submit(*drills(7), {"fail": "permanent"})
    async with work.worker():
        await work.ended(task_id)
    client = worker_client(work.redis_url)
    counts = (await FinishedCounts(client).last_hour(["demo:drill"]))["demo:drill"]
    await client.aclose()
    assert (counts.completed, counts.failed) == (7, 1)


async def test_watchers_are_hinted_after_the_commit(work: Work) -> None:
    async with redis.asyncio.from_url(work.redis_url) as client, client.pubsub() as listener:
        await listener.subscribe(names.HINT_TASKS)
        task_id = await work.submit({})
        async with work.worker():
            await work.ended(task_id)
        hinted = set()
        while (message := await listener.get_message(timeout=1.0)) is not None:
            if message["type"] == "message":
                hinted |= set(message["data"].decode().split(","))
    assert str(task_id) in hinted  # a channel is the whole server's: a test before may still be heard


async def test_every_served_queue_has_a_heartbeat_with_or_without_a_processor(work: Work) -> None:
    client = worker_client(work.redis_url)
    async with work.worker(queues=names.QUEUES):

        async def all_fresh() -> bool:
            ages = await Heartbeats(client).ages(names.QUEUES)
            return all(age is not None and age < 5 for age in ages.values())

        await wait_until(all_fresh)
    await client.aclose()
