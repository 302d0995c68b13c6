"""Cancel, claim, finish and retry of one task at the same time, on connections of their own: whatever order they get,
no item is lost, none that was cancelled runs, every number is given once, and a round begins and ends once."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from lingxi.db.session import Pool, transaction
from lingxi.domain.decide import Decision
from lingxi.domain.errors import Conflict
from lingxi.services.cancel_task import cancel_task
from lingxi.services.claim_items import Claim, ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.retry_failed import retry_failed
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.workspaces import create_workspace

SIZE = 6

WRONG = """
select t.id, t.status, t.last_seq from media_tasks t
 where (t.queued_items, t.running_items, t.retrying_items, t.succeeded_items, t.failed_items, t.cancelled_items) <>
       (select (count(*) filter (where state = 'queued'))::int, (count(*) filter (where state = 'running'))::int,
               (count(*) filter (where state = 'retrying'))::int, (count(*) filter (where state = 'succeeded'))::int,
               (count(*) filter (where state = 'failed'))::int, (count(*) filter (where state = 'cancelled'))::int
          from media_task_items i where i.task_id = t.id)
    or (select count(distinct last_seq) from media_task_items i where i.task_id = t.id and last_seq > 1)
       <> (select count(*) from media_task_items i where i.task_id = t.id and last_seq > 1)
    or t.last_seq < (select max(last_seq) from media_task_items i where i.task_id = t.id)
    or (t.finished_at is not null and
        t.round <> (select count(*) from outbox_events e where e.task_id = t.id and e.type = 'task.ended'))
    or exists (select from media_task_items i where i.task_id = t.id and i.state = 'cancelled' and i.started_at is not null
                  and i.attempt > 0
                  and not exists (select from media_task_attempts a where a.task_id = i.task_id and a.position = i.position))
"""


class Race:
    """One task and everybody who wants something of it."""

    def __init__(self, pool: Pool, workspace: UUID, task: UUID, chance: random.Random) -> None:
        self.pool, self.workspace, self.task, self.chance = pool, workspace, task, chance
        self.ran: list[Claim] = []
        self.accepted = 0

    async def work(self, positions: list[int], outcome: Any) -> None:
        await self.hesitate()
        keys = [ItemKey(self.task, position) for position in positions]
        async with transaction(self.pool) as connection:
            claims = await claim_items(
                connection, "demo:drill", keys, worker="w", lease_seconds=60, time_limit_seconds=60
            )
        self.ran += claims
        await self.hesitate()
        for claim in claims:
            code = None if outcome == "succeeded" else "drill_failed"
            ending = Ending(claim.key, claim.fence, Decision(outcome, None, code, code, True))
            async with transaction(self.pool) as connection:
                answers = await finish_items(connection, [ending])
            self.accepted += sum(answer.verdict == "accepted" for answer in answers.values())

    async def cancel(self) -> str:
        await self.hesitate()
        return await self.steer(cancel_task)

    async def retry(self) -> str:
        await self.hesitate()
        return await self.steer(retry_failed)

    async def steer(self, verb: Any) -> str:
        try:
            async with transaction(self.pool) as connection:
                await verb(connection, self.workspace, self.task)
        except Conflict:
            return "conflict"
        return "done"

    async def hesitate(self) -> None:
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(0)


async def new_race(pool: Pool, workspace: UUID, seed: int) -> Race:
    async with transaction(pool) as connection:
        new = NewTask(workspace, "demo:drill", 1, [None] * SIZE, ["{}"] * SIZE)
        task = await submit_task(connection, new, items_per_event=2)
    return Race(pool, workspace, task.id, random.Random(seed))


async def new_workspace(pool: Pool) -> UUID:
    async with transaction(pool) as connection:
        workspace = await create_workspace(connection, "races")
    assert workspace is not None
    return workspace.id


@pytest.mark.parametrize(
    "rounds", [100, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
async def test_cancel_races_with_everything(pool: Pool, rounds: int) -> None:
    workspace = await new_workspace(pool)
    orders = set()
    for number in range(rounds):
        race = await new_race(pool, workspace, number)
        outcomes = ["succeeded", "failed", "retrying", "released"]
        workers = [
            race.work([1, 2, 3, 4], race.chance.choice(outcomes)),
            race.work([3, 4, 5, 6], race.chance.choice(outcomes)),
        ]
        await asyncio.gather(*workers, race.cancel(), race.cancel(), race.retry())
        task = await pool.fetchrow("select * from media_tasks where id = $1", race.task)
        assert await pool.fetch(WRONG) == [], f"seed {number}"
        assert race.accepted == len(race.ran), f"seed {number}: a finish of an owned attempt was refused"
        assert task is not None
        orders.add((task["status"], task["round"], len(race.ran)))
        # A cancel that came first leaves nothing to run: what is cancelled can never be claimed again.
        keys = [ItemKey(race.task, position) for position in range(1, SIZE + 1)]
        async with transaction(pool) as connection:
            again = await claim_items(
                connection, "demo:drill", keys, worker="w", lease_seconds=60, time_limit_seconds=60
            )
        waiting = task["queued_items"] + task["retrying_items"]
        assert len(again) <= waiting, f"seed {number}: a cancelled or final item was claimed"
        if task["cancel_requested_at"] is not None:
            assert again == []
        await pool.execute("delete from media_tasks where id = $1", race.task)
    assert len(orders) > 3, "the race always went the same way: it tries nothing"


@pytest.mark.parametrize(
    "rounds", [50, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
async def test_two_retries_at_once_make_one_round(pool: Pool, rounds: int) -> None:
    workspace = await new_workspace(pool)
    for number in range(rounds):
        race = await new_race(pool, workspace, number)
        await race.work([1, 2, 3], "failed")
        await race.work([4, 5, 6], "succeeded")
        answers = await asyncio.gather(*(race.retry() for _ in range(4)))
        assert sorted(answers) == ["conflict", "conflict", "conflict", "done"]
        task = await pool.fetchrow("select * from media_tasks where id = $1", race.task)
        assert task is not None
        assert (task["round"], task["queued_items"], task["succeeded_items"]) == (2, 3, 3)
        rung = await pool.fetchval(
            "select sum(item_count) from outbox_events where task_id = $1 and round = 2 and type = 'items.queued'",
            race.task,
        )
        assert rung == 3


async def test_two_workers_claim_each_item_once(pool: Pool) -> None:
    workspace = await new_workspace(pool)
    for number in range(30):
        race = await new_race(pool, workspace, number)
        await asyncio.gather(*(race.work([1, 2, 3, 4, 5, 6], "succeeded") for _ in range(4)))
        assert sorted(claim.key.position for claim in race.ran) == [1, 2, 3, 4, 5, 6]
        assert await pool.fetchval("select status from media_tasks where id = $1", race.task) == "succeeded"


async def test_tasks_finished_together_do_not_deadlock(pool: Pool) -> None:
    """Batches over the same tasks in opposite orders: the statement locks tasks in the order of their ids."""
    workspace = await new_workspace(pool)
    for number in range(20):
        races = [await new_race(pool, workspace, number) for _ in range(6)]
        async with transaction(pool) as connection:
            claims = await claim_items(
                connection,
                "demo:drill",
                [ItemKey(race.task, position) for race in races for position in range(1, SIZE + 1)],
                worker="w",
                lease_seconds=60,
                time_limit_seconds=60,
            )
        random.Random(number).shuffle(claims)
        halves = claims[: len(claims) // 2], claims[len(claims) // 2 :][::-1]

        async def finish(half: list[Claim]) -> None:
            async with transaction(pool) as connection:
                await finish_items(
                    connection, [Ending(c.key, c.fence, Decision("succeeded", "{}")) for c in half]
                )

        await asyncio.gather(*(finish(half) for half in halves))
    assert await pool.fetch("select id from media_tasks where status <> 'succeeded'") == []
    assert await pool.fetch(WRONG) == []


async def test_an_item_of_another_type_is_not_claimed(pool: Pool) -> None:
    """A job in the wrong queue: the processor of that queue must never see the item."""
    race = await new_race(pool, await new_workspace(pool), 1)
    async with transaction(pool) as connection:
        claims = await claim_items(
            connection,
            "media:verify",
            [ItemKey(race.task, 1)],
            worker="w",
            lease_seconds=60,
            time_limit_seconds=60,
        )
    assert claims == []


async def test_one_bad_result_refuses_its_batch_and_nothing_is_half_written(pool: Pool) -> None:
    race = await new_race(pool, await new_workspace(pool), 1)
    async with transaction(pool) as connection:
        claims = await claim_items(
            connection,
            "demo:drill",
            [ItemKey(race.task, position) for position in (1, 2)],
            worker="w",
            lease_seconds=60,
            time_limit_seconds=60,
        )
    endings = [Ending(claim.key, claim.fence, Decision("succeeded", '"\\u0000"')) for claim in claims]
    with pytest.raises(asyncpg.DataError):
        async with transaction(pool) as connection:
            await finish_items(connection, endings)
    assert await pool.fetchval("select running_items from media_tasks where id = $1", race.task) == 2
