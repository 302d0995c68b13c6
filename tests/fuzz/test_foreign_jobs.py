"""Jobs that another client puts into our queues: each ends, none stops a loop, and the work behind them is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.errors import BrokerError
from lingxi.broker.hints import Hints
from lingxi.broker.marker import WipeMarker
from lingxi.broker.queue import BullQueue, Job
from lingxi.broker.replies import delay_of, priority_of
from lingxi.domain.ids import item_id
from lingxi.maintenance.sweeper import Sweeper
from tests.fuzz.foreign import Foreign, Queue, queue_of
from tests.support.waiting import wait_until
from tests.support.work import Work

DATA = b"data"
NOBODY = b"bull:demo-drill:nobody"
LONG_NUMBER = b"9" * 5_000


def _json(**fields: Any) -> dict[bytes, bytes | None]:
    return {DATA: json.dumps(fields).encode()}


def foreign_jobs() -> list[Foreign]:
    """What ends as `foreign_job`, for all to see among the failed ones."""
    task = str(uuid4())
    return [
        Foreign(b"no-fields", key="none"),
        Foreign(b"no-data", {DATA: None}),
        Foreign(b"empty", {DATA: b""}),
        Foreign(b"not-utf-8", {DATA: b"\xff\xfe{}"}),
        Foreign(b"utf-16", {DATA: '{"v":1}'.encode("utf-16")}),
        Foreign(b"null", {DATA: b"null"}),
        Foreign(b"deep", {DATA: b"[" * 100_000}),
        Foreign(b"nul", {DATA: b'{"v":1,"taskId":"\\u0000","itemId":"\\u0000"}'}),
        Foreign(b"large", {DATA: b'{"v":1,"x":"' + b"x" * 3_000_000 + b'"}'}),
        Foreign(b"v-text", _json(v="1", taskId=task, itemId=task)),
        Foreign(b"v-true", _json(v=True, taskId=task, itemId=task)),
        Foreign(b"v-huge", {DATA: b'{"v":99999999999999999999999}'}),
        Foreign(b"v-negative", _json(v=-3)),
        Foreign(b"v-absent", _json(taskId=task, itemId=task)),
        Foreign(b"ids-of-a-type", _json(v=1, taskId=7, itemId=[task])),
        Foreign(b"ids-in-braces", _json(v=1, taskId=f"{{{task}}}", itemId=f"{{{task}}}")),
        Foreign(b"ids-unicode", _json(v=1, taskId="０" * 36, itemId="０" * 36)),
        Foreign(b"a photo's", _json(v=1, photoId=task, albumId=task)),
        Foreign(b"a:b:c"),
        Foreign(b"\xff\x00\r\n"),
        Foreign(b"x" * 10_000),
        Foreign(b" "),
        Foreign(b"12345"),
        Foreign(b"time-words", {b"timestamp": b"abc"}),
        Foreign(b"time-negative", {b"timestamp": b"-1"}),
        Foreign(b"time-long", {b"timestamp": LONG_NUMBER}),
        Foreign(b"time-none", {b"timestamp": None}),
        Foreign(b"opts-words", {b"opts": b"not json"}),
        Foreign(b"opts-list", {b"opts": b"[]"}),
        Foreign(b"opts-attempts", {b"opts": b'{"attempts":1000,"backoff":{"type":"no such"},"delay":-5}'}),
        Foreign(b"a-parent", {b"parentKey": NOBODY, b"parent": b'{"id":"nobody","queueKey":"bull:demo-drill"}'}),
        Foreign(b"a-schedule", {b"rjk": b"nobody"}),
        Foreign(b"name-bytes", {b"name": b"\xff"}),
        Foreign(b"first", place="prioritized", score="-inf"),
        Foreign(b"last", place="prioritized", score="+inf"),
        Foreign(b"far", place="prioritized", score="1e300"),
        Foreign(b"delayed-till-now", place="delayed"),
        Foreign(b"active-without-lock", place="active"),
    ]  # fmt: skip


def broken_jobs() -> list[Foreign]:
    """What BullMQ's own scripts cannot bear: it is gone, with a line in the log."""
    return [
        Foreign(b"a-string", key="string"),
        Foreign(b"a-list", key="list"),
        Foreign(b"made-words", {b"atm": b"x"}),
        Foreign(b"made-long", {b"atm": LONG_NUMBER}),
        Foreign(b"started-words", {b"ats": b"x"}),
        Foreign(b"stalled-words", {b"stc": b"x"}, place="active"),
        Foreign(b"a-string-active", key="string", place="active"),
        Foreign(b"parent-words", {b"parentKey": NOBODY, b"parent": b"not json"}),
        Foreign(b"parent-none", {b"parentKey": b"", b"parent": b""}),
        Foreign(b"wait", key="none"),
        Foreign(b"active", key="none"),
        Foreign(b"marker", key="none"),
        Foreign(b"stalled", key="none"),
    ]


async def _ends(work: Work, queue: Queue, job: Foreign) -> None:
    async def ended() -> bool:
        return set(await queue.places(job.id)) <= {"failed"}

    assert await wait_until(ended, 30, f"{job.id[:30]!r} is nowhere, or failed")


async def test_foreign_jobs_fail_and_the_work_among_them_is_done(work: Work) -> None:
    async with queue_of(work.redis_url) as queue:
        tasks = []
        for job in foreign_jobs():
            await queue.put(job)
            tasks.append(await work.submit({}))
        async with work.worker():
            for task_id in tasks:
                assert (await work.ended(task_id, 60))["status"] == "succeeded"
            for job in foreign_jobs():
                await _ends(work, queue, job)
                assert await queue.failed(job.id) in (b"foreign_job", b'"foreign_job"'), job.id[:30]
    assert (await work.queue_lengths())["active"] == 0


@pytest.mark.parametrize(
    "jobs", [broken_jobs(), [*broken_jobs(), *foreign_jobs()][::-1]], ids=["alone", "among others"]
)
async def test_jobs_that_no_script_can_bear_are_removed(work: Work, jobs: list[Foreign]) -> None:
    """One at a time beside good work, then all at once: nothing is left of them, and nothing else is lost."""
    async with queue_of(work.redis_url) as queue, work.worker():
        for job in jobs:
            if not await _may_stand(queue, job):
                continue
            await queue.put(job)
            task_id = await work.submit({})
            assert (await work.ended(task_id, 30))["status"] == "succeeded", job.id
            await _ends(work, queue, job)
        await work.queue_empty()


async def _may_stand(queue: Queue, job: Foreign) -> bool:
    """The list or set where the job is put must be one: a job that is named like it has to be gone first."""
    return await queue.client.type(queue.prefix + job.place.encode()) in (b"none", b"list", b"zset")


async def test_a_broken_job_keeps_no_stalled_one_from_coming_back(work: Work) -> None:
    """Its owner is dead: only BullMQ's check brings it back, and that check fails at the broken one."""
    task_id = await work.submit({})
    data = {"v": 1, "eventId": "1", "taskId": str(task_id), "itemId": str(item_id(task_id, 1))}
    await work.pool.execute("update outbox_events set published_at = now() where task_id = $1", task_id)
    async with queue_of(work.redis_url) as queue:
        for job in broken_jobs():
            if job.place == "active":
                await queue.put(job)
        await queue.put(Foreign(b"1-stalled", _json(**data), place="active"))
        async with work.worker():
            assert (await work.ended(task_id, 30))["status"] == "succeeded"


async def _sent(work: Work, task_id: UUID) -> None:
    async def sent() -> bool:
        left = "select count(*) from outbox_events where task_id = $1 and published_at is null"
        return not await work.pool.fetchval(left, task_id)

    assert await wait_until(sent, 30, "jobs of another queue are sent, whatever is broken in this one")


@asynccontextmanager
async def _sweeping(work: Work) -> AsyncIterator[None]:
    """What was taken from one list and could not be put into another rings again with the next sweep."""
    client = api_client(work.redis_url)
    bull = BullQueue("demo:drill", connection_factory(work.redis_url), token="sweep")
    sweeper = Sweeper(work.pool, {"demo:drill": bull}, WipeMarker(client), Hints(client), 0.2)
    task = asyncio.create_task(sweeper.run())
    try:
        yield
    finally:
        sweeper.stop()
        await task
        await bull.close()
        await client.aclose()


async def test_a_queue_whose_keys_are_something_else_is_put_right(work: Work) -> None:
    """Somebody named a job like one of the queue's own keys while nothing was there: BullMQ makes a hash of it."""
    names = (
        "wait",
        "prioritized",
        "active",
        "delayed",
        "events",
        "id",
        "pc",
        "marker",
        "stalled",
        "completed",
    )
    async with queue_of(work.redis_url) as queue, work.worker(), _sweeping(work):
        for name in names:
            await work.queue_empty()
            await queue.client.delete(queue.prefix + name.encode())
            await queue.client.hset(queue.prefix + name.encode(), mapping={"data": "{}", "name": "x"})
            task_id = await work.submit({})
            other = await work.submit({}, type="media:verify")
            assert (await work.ended(task_id, 30))["status"] == "succeeded", name

            await _sent(work, other)


async def test_numbers_of_a_queue_that_are_none_are_put_right(work: Work) -> None:
    """BullMQ counts with them in each script: one that is a word makes all of them fail."""
    async with queue_of(work.redis_url) as queue, work.worker():
        for name in (b"id", b"pc"):
            await queue.client.set(queue.prefix + name, b"words")
            assert (await work.ended(await work.submit({}), 30))["status"] == "succeeded", name
        for name in (b"concurrency", b"max", b"opts.maxLenEvents"):
            await queue.client.hset(queue.prefix + b"meta", name, b"words")
            assert (await work.ended(await work.submit({}), 30))["status"] == "succeeded", name


async def test_a_delayed_job_that_is_broken_takes_no_other_bell_with_it_for_ever(work: Work) -> None:
    """BullMQ takes all delayed jobs that are due out of their set, and then fails at the broken one: they stand nowhere."""
    async with queue_of(work.redis_url) as queue:
        bull = BullQueue("demo:drill", connection_factory(work.redis_url), token="test")
        job = Job("process-delayed", b'{"v":1}')
        await bull.add_many([job], priority=0, timestamp_ms=1)
        await queue.client.delete(queue.prefix + b"wait")
        for number, member in enumerate([b"broken", b"process-delayed"]):
            await queue.client.execute_command("ZADD", queue.prefix + b"delayed", str(number), member)
        await queue.client.set(queue.prefix + b"broken", b"x")
        with pytest.raises(BrokerError):
            await bull.take(1)
        assert await queue.places(b"process-delayed") == []
        assert await bull.exist([job.id]) == [False]
        await bull.add_many([job], priority=0, timestamp_ms=1)
        (delivery,) = await bull.take(1)
        assert delivery.job_id == job.id
        await bull.close()


async def test_a_sound_job_is_not_removed_when_something_else_is_broken(work: Work) -> None:
    """It is active, given back or waits while another job, or a key of the queue, makes its calls fail."""
    async with queue_of(work.redis_url) as queue:
        bull = BullQueue("demo:drill", connection_factory(work.redis_url), token="test")
        await bull.add_many([Job(f"1-{name}", b'{"v":1}') for name in "abc"], priority=0, timestamp_ms=1)
        first, second = await bull.take(2)
        await queue.put(Foreign(b"broken", {b"atm": b"x"}, place="active"))
        await queue.client.delete(queue.prefix + b"marker")
        await queue.client.set(queue.prefix + b"marker", b"x")
        await bull.give_back([first])
        assert await queue.places(b"broken") == []
        assert await bull.exist(["1-a", "1-b", "1-c"]) == [True, True, True]
        assert sorted(delivery.job_id for delivery in await bull.take(5)) == ["1-a", "1-c"]
        await bull.finish_many([second], fetch_next=False)
        assert (await bull.counts()).active == 2
        await bull.close()


async def test_times_that_no_clock_shows_make_nobody_spin(work: Work, redis_url: str) -> None:
    async with queue_of(redis_url) as queue:
        for number, score in enumerate(["-inf", "-1e15", "+inf", "1e300"]):
            await queue.put(Foreign(b"delayed-%d" % number, place="delayed", score=score))
        bull = BullQueue("demo:drill", connection_factory(redis_url), token="test")
        assert await bull.take(5) == []
        await queue.client.delete(queue.prefix + b"marker")
        waiting = asyncio.create_task(bull.wait_for_work(30))
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done, "it waits, and does not look again and again"
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await bull.close()


@pytest.mark.parametrize(
    ("reply", "due_ms"),
    [(None, 0), (0, 0), (-(2**63), 0), (2**63 - 1, 0), (b"1700000000000", 1_700_000_000_000), (b"7", 7)],
)
def test_when_the_next_delayed_job_is_due(reply: Any, due_ms: int) -> None:
    assert delay_of(reply) == due_ms


@pytest.mark.parametrize(
    ("score", "priority"),
    [(b"-inf", None), (b"inf", None), (b"1e300", None), (b"-5", None), (b"8589934597", 2), (b"5", 0)],
)
def test_the_priority_of_the_first_in_line(score: bytes, priority: int | None) -> None:
    assert priority_of([b"id", score]) == priority
    assert priority_of([]) is None


FIELD_NAMES = some.sampled_from(
    [b"data", b"opts", b"timestamp", b"atm", b"ats", b"stc", b"parentKey", b"parent", b"deid", b"rjk"]
)
VALUES = some.one_of(
    some.none(),
    some.binary(max_size=40),
    some.sampled_from([b"{}", b"[]", b"null", b"1e999", b"\xf0\x9f\x98\x80", LONG_NUMBER]),
)
JOBS = some.builds(
    Foreign,
    some.binary(min_size=1, max_size=12).map(lambda tail: b"f-" + tail),
    some.dictionaries(FIELD_NAMES, VALUES, max_size=4),
    some.sampled_from(["wait", "wait", "wait", "active"]),
    key=some.sampled_from(["hash", "hash", "hash", "none", "string", "list"]),
)
ROUNDS = some.lists(JOBS, min_size=1, max_size=12, unique_by=lambda job: job.id)


@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
async def test_random_jobs(work: Work, rounds: int) -> None:
    batches: list[list[Foreign]] = []

    @settings(max_examples=rounds, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(ROUNDS)
    def draw(jobs: list[Foreign]) -> None:
        batches.append(jobs)

    draw()
    async with queue_of(work.redis_url) as queue, work.worker():
        for number, jobs in enumerate(batches):
            for job in jobs:
                await queue.put(
                    Foreign(b"%d-%b" % (number, job.id), job.fields, job.place, job.score, job.key)
                )
            task_id = await work.submit({}, {})
            assert (await work.ended(task_id, 30))["status"] == "succeeded", jobs
            for job in jobs:
                await _ends(work, queue, Foreign(b"%d-%b" % (number, job.id)))
