"""A stage batches what is ready, and loses nothing when its work fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from lingxi.broker.errors import BrokerUnavailable
from lingxi.worker import stage as stage_module
from lingxi.worker.outage import Outage, pause_seconds
from lingxi.worker.stage import Stage
from lingxi.worker.ward import Ward


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "pause_seconds", lambda failures: 0.0)


@asynccontextmanager
async def running(
    work: Callable[[list[int]], Awaitable[None]], limit: int = 250
) -> AsyncIterator[Stage[int]]:
    stage = Stage("test", work, Outage("postgres"), Outage("redis"), limit)
    task = asyncio.create_task(stage.run())
    yield stage
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_gathers_while_a_batch_is_on_its_way_is_the_next_batch() -> None:
    batches: list[list[int]] = []
    go_on = asyncio.Event()

    async def work(batch: list[int]) -> None:
        batches.append(batch)
        await go_on.wait()

    async with running(work, limit=4) as stage:
        stage.put([1])
        await asyncio.sleep(0)
        stage.put([2, 3])
        stage.put([4, 5, 6, 7])
        go_on.set()
        await stage.wait_idle()
    assert batches == [[1], [2, 3, 4, 5], [6, 7]]


@pytest.mark.parametrize("error", [BrokerUnavailable("gone"), ConnectionError("gone"), ValueError("a bug")])
async def test_a_batch_that_failed_comes_back_whole_and_in_order(error: Exception) -> None:
    batches: list[list[int]] = []

    async def work(batch: list[int]) -> None:
        batches.append(batch)
        if len(batches) < 3:
            raise error

    async with running(work, limit=3) as stage:
        stage.put([1, 2, 3, 4])
        await stage.wait_idle()
    assert batches == [[1, 2, 3], [1, 2, 3], [1, 2, 3], [4]]


async def test_an_outage_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    outage = Outage("redis")
    for _ in range(5):
        outage.began(BrokerUnavailable("gone"))
    assert outage.lasts
    outage.ended()
    outage.ended()
    said = "".join(capfd.readouterr())
    assert (said.count("redis_unavailable"), said.count("redis_available")) == (1, 1)


async def test_what_is_taken_back_is_not_worked_on() -> None:
    seen: list[int] = []
    go_on = asyncio.Event()

    async def work(batch: list[int]) -> None:
        seen.extend(batch)
        await go_on.wait()

    async with running(work, limit=1) as stage:
        stage.put([1, 2, 3])
        await asyncio.sleep(0)
        assert stage.take_back() == [2, 3]
        go_on.set()
        await stage.wait_idle()
    assert seen == [1]


def test_pauses_grow_to_a_second() -> None:
    pauses = [pause_seconds(failures) for failures in range(1, 100)]
    assert pauses[0] <= 0.05
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0


async def test_the_ward_holds_one_and_calls_the_next() -> None:
    ward, called = Ward(), []
    assert ward.enter()
    assert not ward.enter()
    ward.wait(lambda: called.append(1))
    ward.wait(lambda: called.append(2))
    await asyncio.sleep(0)
    assert called == []
    ward.leave()
    await asyncio.sleep(0)
    assert called == [1]
    assert ward.enter()
    ward.leave()
    await asyncio.sleep(0)
    assert called == [1, 2]
    ward.wait(lambda: called.append(3))  # the place is free: at once
    await asyncio.sleep(0)
    assert called == [1, 2, 3]
