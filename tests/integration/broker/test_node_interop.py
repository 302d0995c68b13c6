"""One queue, two libraries: Node's BullMQ (pinned to 5.81) and ours, in both directions; and what bull-board shows of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from lingxi import names
from lingxi.broker.client import RedisClient
from lingxi.broker.queue import BullQueue, Job, QueueCounts
from lingxi.outbox.jobs import jobs_of_event
from tests.integration.broker.conftest import MakeQueue
from tests.integration.broker.node_peer import NodePeer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(360)]  # the first one installs npm's packages

NOTHING = {"wait": 0, "prioritized": 0, "active": 0, "delayed": 0, "completed": 0, "failed": 0}


@pytest.fixture
async def node(redis_url: str) -> AsyncIterator[NodePeer]:
    peer = await NodePeer.start(redis_url, names.physical_queue("demo:drill"))
    yield peer
    await peer.close()


async def add(queue: BullQueue, *ids: str, priority: int = 1) -> None:
    now_ms = int(time.time() * 1000)
    await queue.add_many(
        [Job(job_id, json.dumps({"id": job_id}).encode()) for job_id in ids],
        priority=priority,
        timestamp_ms=now_ms,
    )


# ── Node adds, we work ───────────────────────────────────────────────────────────────────────────────────
async def test_jobs_of_node_are_taken_and_finished_by_us(queue: BullQueue, node: NodePeer) -> None:
    data = {"text": 'größer "x" 😀', "n": [1, None, {"a": True}]}
    await node(
        "add",
        jobs=[
            {"name": "late", "data": data, "opts": {"jobId": "n-5", "priority": 5}},
            {"name": "soon", "data": data, "opts": {"jobId": "n-1", "priority": 1}},
            {"name": "first", "data": data, "opts": {"jobId": "n-0"}},
            {"name": "plain", "data": {}, "opts": {}},
        ],
    )
    assert await queue.counts() == QueueCounts(4, 0, 0, 0, 0)
    held = await queue.take(10)
    assert [d.name for d in held] == ["first", "plain", "soon", "late"]
    assert json.loads(held[0].data) == data
    assert abs(held[0].timestamp_ms - time.time() * 1000) < 60_000
    assert (await node("counts"))["active"] == 4
    assert await queue.finish_many(held, fetch_next=True) == []
    assert await node("counts") == NOTHING
    assert await node("job", id="n-0") is None


async def test_an_idle_worker_of_ours_hears_node(make_queue: MakeQueue, node: NodePeer) -> None:
    worker = make_queue()
    for job in ({"name": "a", "data": {}, "opts": {}}, {"name": "b", "data": {}, "opts": {"priority": 3}}):
        await worker.wait_for_work(0.05)  # a bell that is left over
        listening = asyncio.create_task(worker.wait_for_work(20))
        await wait_until(lambda: worker._waits.is_open)
        await node("add", jobs=[job])
        async with asyncio.timeout(5):
            await listening
        await worker.finish_many(await worker.take(1), fetch_next=False)
    started = time.monotonic()
    await node("add", jobs=[{"name": "c", "data": {}, "opts": {"delay": 300, "jobId": "n-late"}}])
    assert (await worker.counts()).delayed == 1
    async with asyncio.timeout(5):
        while not (held := await worker.take(1)):
            await worker.wait_for_work(20)
    assert held[0].job_id == "n-late" and time.monotonic() - started < 10


async def test_a_foreign_job_fails_for_all_to_see(queue: BullQueue, node: NodePeer) -> None:
    await node("add", jobs=[{"name": "mail", "data": {"to": "x"}, "opts": {"jobId": "n-1", "attempts": 5}}])
    (held,) = await queue.take(1)
    reason = f'{names.FOREIGN_JOB}: it names no item of größer "x" 😀'
    await queue.fail(held, reason)
    job = await node("job", id="n-1")
    assert (job["state"], job["failedReason"], job["attemptsMade"]) == ("failed", reason, 1)
    assert await node("counts") == {**NOTHING, "failed": 1}
    # somebody presses "retry" on a dashboard: we get it again, as it was
    await node("retry", id="n-1")
    (again,) = await queue.take(1)
    assert json.loads(again.data) == {"to": "x"}


# ── we add, Node works ───────────────────────────────────────────────────────────────────────────────────
async def test_our_jobs_are_done_by_a_node_worker_in_order(queue: BullQueue, node: NodePeer) -> None:
    await add(queue, "3-bulk", priority=2)
    await add(queue, "2-normal", "2-more", priority=1)
    await add(queue, "1-live", priority=0)
    seen = {
        "id": "2-normal",
        "name": "item",
        "data": {"id": "2-normal"},
        "state": "prioritized",
        "priority": 1,
    }
    assert seen.items() <= (await node("job", id="2-normal")).items()
    await node("work")
    outcomes = await node.outcomes(4)
    assert [o["id"] for o in outcomes] == ["1-live", "2-normal", "2-more", "3-bulk"]
    first = outcomes[0]
    assert (first["name"], first["data"], first["result"], first["made"]) == (
        "item",
        {"id": "1-live"},
        {"done": "1-live"},
        1,
    )
    assert first["opts"]["attempts"] == 1
    assert await node("counts") == NOTHING, "done jobs are not kept"


async def test_an_idle_node_worker_hears_us(queue: BullQueue, node: NodePeer) -> None:
    await node("work")
    for n, priority in enumerate((0, 1)):
        await add(queue, f"1-{n}", priority=priority)
        assert (await node.outcomes(n + 1))[n]["id"] == f"1-{n}"


async def test_a_job_that_a_node_worker_failed_says_why_and_is_gone(queue: BullQueue, node: NodePeer) -> None:
    await add(queue, "1-a")
    await node("work", fail=["1-a"])
    (outcome,) = await node.outcomes(1)
    assert outcome == {"id": "1-a", "failed": 'größer "1-a" 😀', "made": 1}
    assert await node("counts") == NOTHING


async def test_two_libraries_share_one_queue_and_nothing_is_done_twice(
    make_queue: MakeQueue, node: NodePeer
) -> None:
    ours = make_queue()
    ids = [f"1-{n}" for n in range(400)]
    await node("work", options={"concurrency": 10})
    await add(ours, *ids)
    done: list[str] = []
    held = await ours.take(10)
    await node.outcomes(1)  # on a busy machine it would come too late for any
    while held:
        done += [d.job_id for d in held]
        held = await ours.finish_many(held, fetch_next=True) or await ours.take(10)
    theirs = [o["id"] for o in await node.outcomes(len(ids) - len(done))]
    assert sorted(done + theirs) == sorted(ids)
    assert theirs and done, "both had a share"
    assert await node("counts") == NOTHING


# ── ids, locks, giving back, pausing ─────────────────────────────────────────────────────────────────────
async def test_an_id_that_is_still_kept_is_one_job_for_both(queue: BullQueue, node: NodePeer) -> None:
    await add(queue, "1-a")
    assert await node("add", jobs=[{"name": "x", "data": {}, "opts": {"jobId": "1-a"}}]) == ["1-a"]
    await node("add", jobs=[{"name": "x", "data": {}, "opts": {"jobId": "1-b"}}])
    await add(queue, "1-b")
    assert [(d.job_id, d.name) for d in sorted(await queue.take(5), key=lambda d: d.job_id)] == [
        ("1-a", "item"), ("1-b", "x"),
    ]  # fmt: skip


async def test_a_job_under_our_lock_is_ours_until_the_lock_ends(
    make_queue: MakeQueue, node: NodePeer, client: RedisClient
) -> None:
    ours = make_queue(lock_ms=60_000)
    await add(ours, "1-a")
    held = await ours.take(1)
    await node("work", options={"stalledInterval": 50, "maxStalledCount": 5})
    await add(ours, "1-b")
    assert [o["id"] for o in await node.outcomes(1)] == ["1-b"]
    await wait_until(lambda: client.sismember("bull:demo-drill:stalled", "1-a"))
    assert [o["id"] for o in await node("outcomes")] == ["1-b"]
    assert await ours.extend_locks(held) == []
    await client.delete("bull:demo-drill:1-a:lock")
    assert [o["id"] for o in await node.outcomes(2)] == ["1-b", "1-a"]
    assert await ours.extend_locks(held) == ["1-a"]


@pytest.mark.parametrize("priority", [0, 1])
async def test_what_we_give_back_a_node_worker_does(queue: BullQueue, node: NodePeer, priority: int) -> None:
    await add(queue, "1-a", "1-b", priority=priority)
    held = await queue.take(2)
    await node("work")
    await wait_until(lambda: node("workers"))
    await queue.give_back(held)
    outcomes = await node.outcomes(2)
    assert {o["id"] for o in outcomes} == {"1-a", "1-b"}
    assert {o["made"] for o in outcomes} == {1}, "giving back is no attempt"


async def test_a_queue_that_node_paused_is_paused_for_us_and_the_other_way_round(
    queue: BullQueue, node: NodePeer
) -> None:
    await node("pause")
    await add(queue, "1-a")
    assert await queue.take(1) == []
    await node("resume")
    assert len(await queue.take(1)) == 1
    await queue.pause()
    await add(queue, "1-b")
    board = await node("board")
    assert board["queues"][0]["isPaused"]
    await queue.resume()
    assert not (await node("board"))["queues"][0]["isPaused"]


# ── bull-board ───────────────────────────────────────────────────────────────────────────────────────────
async def test_the_board_shows_our_queue_as_it_is(make_queue: MakeQueue, node: NodePeer) -> None:
    from lingxi.domain.ids import item_id, new_task_id

    ours = make_queue("host-1/abc")
    task_id = new_task_id()
    jobs = jobs_of_event(42, task_id, range(1, 8), [None] * 7)
    now_ms = int(time.time() * 1000)
    await ours.add_many(jobs[:3], priority=1, timestamp_ms=now_ms)
    await ours.add_many(jobs[3:6], priority=2, timestamp_ms=now_ms)
    await ours.add_many(jobs[6:], priority=0, timestamp_ms=now_ms)
    live, normal = await ours.take(2)
    await ours.fail(normal, "foreign_job")
    await ours.wait_for_work(0.01)

    (shown,) = (await node("board"))["queues"]
    assert shown["name"] == "demo-drill" and shown["type"] == "bullmq" and not shown["isPaused"]
    counts = {
        state: shown["counts"].get(state, 0)
        for state in ("waiting", "prioritized", "active", "failed", "completed", "delayed")
    }
    assert counts == {"waiting": 0, "prioritized": 5, "active": 1, "failed": 1, "completed": 0, "delayed": 0}
    by_id = {job["id"]: job for job in shown["jobs"]}
    assert set(by_id) == {job.id for job in jobs}
    second = by_id[f"42-{item_id(task_id, 2)}"]
    assert second["data"] == {
        "v": 1,
        "eventId": "42",
        "taskId": str(task_id),
        "itemId": str(item_id(task_id, 2)),
    }
    assert (second["name"], second["timestamp"], second["opts"]["priority"], second["attempts"]) == (
        "item",
        now_ms,
        1,
        0,
    )
    failed = by_id[normal.job_id]
    assert failed["isFailed"] and failed["failedReason"] == "foreign_job" and failed["finishedOn"] >= now_ms
    active = by_id[live.job_id]
    assert active["processedOn"] >= now_ms and not active["isFailed"]
    assert [job["id"] for job in (await node("board", status="failed"))["queues"][0]["jobs"]] == [
        normal.job_id
    ]
    assert await node("workers") == ["bull:ZGVtby1kcmlsbA==:w:host-1/abc"]

    await ours.finish_many([live], fetch_next=False)
    while held := await ours.take(10):
        await ours.finish_many(held, fetch_next=False)
    assert {state: n for state, n in (await node("board"))["queues"][0]["counts"].items() if n} == {
        "failed": 1
    }
