"""An effect and its item's result in one commit: both or neither, and only behind the fence."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from lingxi.processors.contract import Context, Processor, ProcessorInput
from lingxi.services.sweep_leases import sweep_leases
from tests.support.waiting import wait_until
from tests.support.work import Work

MARK = "insert into deployment (key, value) values ($1, '')"


class Given(ProcessorInput):
    """What happens around the commit."""

    lose: bool = False  # another attempt takes the item before it
    then: str = "return"


def processor(work: Work) -> Processor[Given]:
    async def run(context: Context, given: Given) -> dict[str, Any]:
        async with context.transaction() as connection:
            await connection.execute(MARK, f"effect-{context.attempt.number}")
            context.succeed({"committed": context.attempt.number})
            if given.lose and context.attempt.number == 1:
                await work.pool.execute(
                    "update media_task_items set lease_expires_at = now() - interval '1 s' where state = 'running'"
                )
                async with work.pool.acquire() as other:
                    await sweep_leases(other)
        match given.then:
            case "raise":
                raise RuntimeError("after the commit")
            case "again":
                with pytest.raises(RuntimeError, match="the item has ended"):
                    async with context.transaction():
                        pass
            case "hang":
                await asyncio.sleep(3600)
        return {"returned": True}

    return Processor("demo:drill", Given, run, time_limit_seconds=3.0, backoff_seconds=0.05)


async def effects(work: Work) -> list[str]:
    rows = await work.pool.fetch("select key from deployment where key like 'effect-%' order by key")
    return [row["key"] for row in rows]


@pytest.mark.parametrize("then", ["return", "raise", "again", "hang"])
async def test_what_was_committed_stands_whatever_comes_after(work: Work, then: str) -> None:
    work.processors = {"demo:drill": processor(work)}
    async with work.worker():
        task_id = await work.submit({"then": then})
        await work.ended(task_id, 30)
        await work.queue_empty()
    (item,) = await work.items(task_id)
    assert (item["state"], item["attempt"], item["result"]) == ("succeeded", 1, '{"committed": 1}')
    assert await effects(work) == ["effect-1"]


async def test_what_committed_its_own_end_is_not_told_that_its_lease_was_lost(work: Work) -> None:
    """It may be busy after its commit: with its scratch folder, with words to others."""
    told: list[str | None] = []

    async def run(context: Context, given: Given) -> dict[str, Any]:
        async with context.transaction():
            context.succeed({})
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):  # ten renewals
                await context.stopping.wait()
        told.append(context.stop_reason)
        return {}

    work.processors = {"demo:drill": Processor("demo:drill", Given, run)}
    async with work.worker(lease_renew_seconds=0.05):
        await work.ended(await work.submit({}))
        await wait_until(lambda: told)
    assert told == [None]


async def test_who_lost_the_item_commits_nothing(work: Work) -> None:
    work.processors = {"demo:drill": processor(work)}
    async with work.worker():
        task_id = await work.submit({"lose": True})
        await work.ended(task_id, 30)
    (item,) = await work.items(task_id)
    assert (item["state"], item["attempt"], item["result"]) == ("succeeded", 2, '{"committed": 2}')
    assert await effects(work) == ["effect-2"]


async def test_a_result_that_is_none_rolls_the_effect_back(work: Work) -> None:
    async def run(context: Context, given: Given) -> None:
        async with context.transaction() as connection:
            await connection.execute(MARK, "effect-never")
            context.succeed({"large": "x" * 70_000})

    work.processors = {"demo:drill": Processor("demo:drill", Given, run)}
    async with work.worker():
        task_id = await work.submit({})
        await work.ended(task_id, 30)
    assert (await work.items(task_id))[0]["error_code"] == "result_too_large"
    assert await effects(work) == []
