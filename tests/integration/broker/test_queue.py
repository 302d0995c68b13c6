"""BullQueue against a real server: what BullMQ's scripts do with our bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from lingxi.broker.client import RedisClient
from lingxi.broker.errors import JobRejected
from lingxi.broker.queue import BullQueue, Job, QueueCounts, valid_job_id
from lingxi.broker.scripts import load_script
from lingxi.broker.templates import SCRIPT_NAMES
from tests.integration.broker.conftest import MakeQueue
from tests.support.waiting import wait_until

pytestmark = pytest.mark.portable

NOW_MS = 1_790_000_000_123


def jobs(*ids: str) -> list[Job]:
    return [Job(job_id, b'{"v":1,"itemId":"%s"}' % job_id.encode()) for job_id in ids]


async def add(queue: BullQueue, *ids: str, priority: int = 0) -> None:
    await queue.add_many(jobs(*ids), priority=priority, timestamp_ms=NOW_MS)


async def take_ids(queue: BullQueue, limit: int) -> list[str]:
    return [delivery.job_id for delivery in await queue.take(limit)]


def empty(**states: int) -> QueueCounts:
    return QueueCounts(**{"waiting": 0, "active": 0, "delayed": 0, "completed": 0, "failed": 0, **states})


# ── the way of a job ─────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("priority", [0, 1, 2])
async def test_a_job_is_added_taken_and_gone_when_finished(
    queue: BullQueue, client: RedisClient, priority: int
) -> None:
    await add(queue, "7-a", priority=priority)
    assert await queue.waiting() == 1
    assert await queue.counts() == empty(waiting=1)

    (delivery,) = await queue.take(5)
    assert (delivery.job_id, delivery.data, delivery.timestamp_ms) == ("7-a", jobs("7-a")[0].data, NOW_MS)
    assert (delivery.name, delivery.token) == ("item", "worker-1")
    assert await queue.counts() == empty(active=1)

    assert await queue.finish_many([delivery], fetch_next=True) == []
    assert await queue.counts() == empty()
    assert await queue.exist(["7-a"]) == [False]
    left = {key async for key in client.scan_iter("bull:*")}
    assert left <= {f"bull:demo-drill:{key}" for key in ("events", "meta", "id", "marker", "pc")}


async def test_order_is_priority_then_age(queue: BullQueue) -> None:
    await add(queue, "3-bulk-a", "3-bulk-b", priority=2)
    await add(queue, "2-normal-a", "2-normal-b", priority=1)
    await add(queue, "1-live-a", "1-live-b", priority=0)
    assert await take_ids(queue, 10) == [
        "1-live-a", "1-live-b", "2-normal-a", "2-normal-b", "3-bulk-a", "3-bulk-b",
    ]  # fmt: skip


@pytest.mark.parametrize("priority", [0, 1])
async def test_finishing_brings_as_many_next_jobs_as_there_are(queue: BullQueue, priority: int) -> None:
    await add(queue, *(f"1-{n}" for n in range(25)), priority=priority)
    held, seen = await queue.take(10), []
    assert [d.job_id for d in held] == [f"1-{n}" for n in range(10)]
    while held:
        seen += [d.job_id for d in held]
        held = await queue.finish_many(held, fetch_next=True)
    assert seen == [f"1-{n}" for n in range(25)]
    assert await queue.counts() == empty()


async def test_finishing_without_fetch_leaves_the_rest_waiting(queue: BullQueue) -> None:
    await add(queue, "1-a", "1-b")
    held = await queue.take(1)
    assert await queue.finish_many(held, fetch_next=False) == []
    assert await queue.counts() == empty(waiting=1)


async def test_take_asks_for_no_more_than_there_is(queue: BullQueue, client: RedisClient) -> None:
    await add(queue, "1-a", "1-b")
    await queue.counts()
    await client.config_resetstat()
    assert len(await queue.take(200)) == 2
    calls = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    assert calls == 2, "every call in vain rings another idle worker"


async def test_many_jobs_in_one_call(queue: BullQueue) -> None:
    await add(queue, *(f"1-{n}" for n in range(1203)), priority=1)
    assert await queue.waiting() == 1203
    assert await take_ids(queue, 2000) == [f"1-{n}" for n in range(1203)]


async def test_nothing_in_nothing_out(queue: BullQueue) -> None:
    await queue.add_many([], priority=1, timestamp_ms=NOW_MS)
    await queue.give_back([])
    assert await queue.take(0) == []
    assert await queue.take(3) == []
    assert await queue.finish_many([], fetch_next=True) == []
    assert await queue.extend_locks([]) == []
    assert await queue.exist([]) == []
    assert await queue.counts() == empty()


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_the_same_id_again_changes_nothing_while_the_job_is_there(queue: BullQueue) -> None:
    await add(queue, "1-a")
    await queue.add_many([Job("1-a", b"{}")], priority=0, timestamp_ms=1)
    (delivery,) = await queue.take(5)
    assert delivery.data == jobs("1-a")[0].data
    await add(queue, "1-a")  # active: still kept
    assert await queue.counts() == empty(active=1)


@pytest.mark.parametrize(
    "job_id",
    [
        "a:b",
        "123",
        "",
        "meta",
        "wait",
        "stalled-check",
        "waiting-children",
        "a b",
        "é-1",
        "x" * 201,
        "a\n",
        "7-a\x00",
    ],
)
async def test_ids_that_bullmq_or_its_keys_cannot_bear_are_rejected(
    queue: BullQueue, client: RedisClient, job_id: str
) -> None:
    with pytest.raises(JobRejected) as rejected:
        await queue.add_many([Job("1-good", b"{}"), Job(job_id, b"{}")], priority=0, timestamp_ms=1)
    assert rejected.value.job_id == job_id
    assert not valid_job_id(job_id)
    assert [key async for key in client.scan_iter("bull:*")] == []


async def test_data_hold_ids_only(queue: BullQueue) -> None:
    await queue.add_many([Job("1-a", b"x" * 2048)], priority=0, timestamp_ms=1)
    with pytest.raises(JobRejected, match="2049 bytes"):
        await queue.add_many([Job("1-b", b"x" * 2049)], priority=0, timestamp_ms=1)


async def test_one_job_that_the_server_refuses_is_named(queue: BullQueue, client: RedisClient) -> None:
    # the script checks whether the id exists, so only a later step can fail: here the wait list is no list
    await client.set("bull:demo-drill:wait", "no list")
    with pytest.raises(JobRejected, match="WRONGTYPE") as rejected:
        await add(queue, "1-a", "1-b")
    assert rejected.value.job_id == "1-a"


async def test_values_that_spell_like_field_names(queue: BullQueue, client: RedisClient) -> None:
    await client.hset(
        "bull:demo-drill:x-1",
        mapping={"name": "data", "data": '{"a":1}', "opts": "timestamp", "timestamp": "5"},
    )
    await client.lpush("bull:demo-drill:wait", "x-1")
    (delivery,) = await queue.take(1)
    assert (delivery.name, delivery.data, delivery.timestamp_ms) == ("data", b'{"a":1}', 5)


@pytest.mark.parametrize("job_id", ["x-1", b"\xff\xfe-1"])
async def test_a_job_that_lost_its_fields_can_still_be_failed(
    queue: BullQueue, client: RedisClient, job_id: str | bytes
) -> None:
    await client.lpush("bull:demo-drill:wait", job_id)
    (delivery,) = await queue.take(1)
    assert delivery.data == b""
    await queue.fail(delivery, "foreign_job")
    assert await queue.counts() == empty(failed=1)


# ── failing and giving back ──────────────────────────────────────────────────────────────────────────────
async def test_a_failed_job_stays_to_be_seen_and_only_a_thousand_do(
    queue: BullQueue, client: RedisClient
) -> None:
    await add(queue, *(f"1-{n}" for n in range(1005)))
    for delivery in await queue.take(1005):
        await queue.fail(delivery, 'foreign_job: größer "x" 😀')
    assert await queue.counts() == empty(failed=1000)
    job = await client.hgetall("bull:demo-drill:1-1004")
    assert (job["failedReason"], job["atm"]) == ('foreign_job: größer "x" 😀', "1")
    assert await client.exists("bull:demo-drill:1-0") == 0


@pytest.mark.parametrize("priority", [0, 1])
async def test_jobs_given_back_are_first_in_line_and_wake_somebody(
    make_queue: MakeQueue, priority: int
) -> None:
    leaving, idle = make_queue("leaving"), make_queue("idle")
    await add(leaving, "1-a", "1-b", "1-c", priority=priority)
    held = await leaving.take(3)
    await idle.wait_for_work(0.05)  # eats the bell that rang for the jobs which are taken now
    await idle.wait_for_work(0.05)
    listening = asyncio.create_task(idle.wait_for_work(20))
    await wait_until(lambda: idle._waits.is_open)
    await leaving.give_back(held[:2])
    async with asyncio.timeout(2):
        await listening
    assert set(await take_ids(idle, 5)) == {"1-a", "1-b"}
    await idle.finish_many(held[2:], fetch_next=False)  # not ours: skipped
    assert (await idle.counts()).active == 3


async def test_what_is_no_longer_ours_is_not_given_back_or_finished(
    make_queue: MakeQueue, client: RedisClient
) -> None:
    first, second = make_queue("first"), make_queue("second")
    await add(first, "1-a", "1-b")
    held = await first.take(2)
    await client.set("bull:demo-drill:1-a:lock", "second")
    await client.delete("bull:demo-drill:1-b:lock")
    await first.give_back(held)
    assert await first.finish_many(held, fetch_next=True) == []
    await first.fail(held[0], "x")
    assert await second.counts() == empty(active=2)
    await client.flushall()
    assert await first.finish_many(held, fetch_next=True) == [], "a wiped Redis is no error of the worker's"
    await first.give_back(held)


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_lost_lock_is_told(make_queue: MakeQueue, client: RedisClient) -> None:
    queue = make_queue(lock_ms=50_000)
    await add(queue, "1-a", "1-b", "1-c")
    held = await queue.take(3)
    assert await queue.extend_locks(held) == []
    await client.delete("bull:demo-drill:1-a:lock")
    await client.set("bull:demo-drill:1-b:lock", "somebody else")
    await client.pexpire("bull:demo-drill:1-c:lock", 1000)
    assert await queue.extend_locks(held) == ["1-a", "1-b"]
    assert 1000 < await client.pttl("bull:demo-drill:1-c:lock") <= 50_000


async def test_stalled_jobs_come_back_however_often_and_locked_ones_stay(
    make_queue: MakeQueue, client: RedisClient
) -> None:
    queue, other = make_queue(stalled_check_ms=1), make_queue("worker-2", stalled_check_ms=1)
    await add(queue, "1-a", "1-b")
    held = {d.job_id: d for d in await queue.take(2)}

    async def check() -> int:
        await wait_until(lambda: _gone(client, "bull:demo-drill:stalled-check"))
        return await queue.recover_stalled()

    for _ in range(6):  # more often than BullMQ's own limit allows: PostgreSQL counts attempts
        await check()  # marks all that are active
        await client.delete("bull:demo-drill:1-a:lock")  # its worker died
        assert await check() == 1
        assert await take_ids(other, 5) == ["1-a"]
    job = await client.hgetall("bull:demo-drill:1-a")
    assert "defa" not in job and job["stc"] == "6"
    assert await queue.extend_locks([held["1-b"]]) == []


async def _gone(client: RedisClient, key: str) -> bool:
    return not await client.exists(key)


async def test_one_stalled_check_in_the_interval(make_queue: MakeQueue, client: RedisClient) -> None:
    queue, other = make_queue(), make_queue("worker-2")
    await add(queue, "1-a")
    await queue.take(1)
    await client.delete("bull:demo-drill:1-a:lock")
    assert [await queue.recover_stalled(), await other.recover_stalled()] == [0, 0]
    assert 0 < await client.pttl("bull:demo-drill:stalled-check") <= 15_000
    assert await queue.counts() == empty(active=1)


# ── the server forgets ───────────────────────────────────────────────────────────────────────────────────
async def test_forgotten_scripts_are_loaded_again(queue: BullQueue, client: RedisClient) -> None:
    await add(queue, "1-a", "1-b", "1-c")
    await client.script_flush()
    held = await queue.take(2)
    await client.script_flush()
    (third,) = await queue.finish_many(held, fetch_next=True)
    assert third.job_id == "1-c"
    await client.script_flush()
    assert await queue.counts() == empty(active=1)
    loaded = await client.script_exists(*(load_script(name).sha.decode() for name in SCRIPT_NAMES))
    assert all(loaded)


# ── steering and looking ─────────────────────────────────────────────────────────────────────────────────
async def test_a_paused_queue_gives_nothing_and_still_counts(queue: BullQueue, client: RedisClient) -> None:
    await add(queue, "1-a")
    await queue.pause()
    await add(queue, "1-b", priority=1)
    assert await queue.take(5) == []
    assert await queue.counts() == empty(waiting=2)
    await client.rpush("bull:demo-drill:paused", "0-old")  # where older versions kept what waits
    assert await queue.waiting() == 3
    await queue.resume()
    assert await take_ids(queue, 5) == ["0-old", "1-a", "1-b"]


async def test_counts_of_all_states(queue: BullQueue, client: RedisClient) -> None:
    await add(queue, "1-a", "1-b", "1-c", "1-d")
    first, _ = await queue.take(2)
    await queue.fail(first, "x")
    await client.zadd("bull:demo-drill:delayed", {"1-z": 1})
    await client.zadd("bull:demo-drill:completed", {"1-y": 1})
    assert await queue.counts() == QueueCounts(waiting=2, active=1, delayed=1, completed=1, failed=1)
    # The failed one will never ring: as long as it is kept, its id seems taken.
    assert await queue.exist(["1-a", "1-b", "1-c", "1-d", "9-q"]) == [False, True, True, True, False]
    assert await client.exists("bull:demo-drill:1-a") == 0
    assert (await queue.counts()).failed == 0


async def test_workers_are_listed_as_bullmq_lists_them(queue: BullQueue, client: RedisClient) -> None:
    await queue.wait_for_work(0.01)
    listed: Sequence[dict[str, str]] = await client.client_list()
    assert any(entry["name"] == "bull:ZGVtby1kcmlsbA==:w:worker-1" for entry in listed)
