"""The demo's proof can fail: each kind of damage to the rows of a finished task is counted."""

from __future__ import annotations

from uuid import UUID

import pytest

from lingxi.db.session import Pool
from lingxi.domain.decide import Decision
from lingxi.services.claim_items import ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.prove_tasks import TaskProof, prove_tasks
from lingxi.services.record_drill import record_drill
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.workspaces import create_workspace

INPUTS = ['{"effect": true}', '{"effect": true}', "{}"]


async def finished_task(pool: Pool) -> UUID:
    """Three items that succeeded; the first two left their row."""
    async with pool.acquire() as connection, connection.transaction():
        workspace = await create_workspace(connection, "here")
        assert workspace is not None
        new = NewTask(workspace.id, "demo:drill", 1, ["a", "b", "c"], INPUTS)
        task = await submit_task(connection, new)
        keys = [ItemKey(task.id, position) for position in (1, 2, 3)]
        claims = await claim_items(
            connection, "demo:drill", keys, worker="w", lease_seconds=30, time_limit_seconds=60
        )
        for claim in claims[:2]:
            await record_drill(connection, task.id, claim.key.position, claim.fence)
        done = Decision("succeeded", result="{}")
        await finish_items(connection, [Ending(claim.key, claim.fence, done) for claim in claims])
    return task.id


async def prove(pool: Pool, task_id: UUID) -> TaskProof:
    async with pool.acquire() as connection:
        (proof,) = await prove_tasks(connection, [task_id])
    return proof


async def test_a_sound_task_proves_sound(pool: Pool) -> None:
    proof = await prove(pool, await finished_task(pool))
    assert (proof.lost, proof.doubled, proof.counters_agree) == (0, 0, True)
    assert (proof.status, proof.total, proof.succeeded, proof.effects, proof.ends, proof.attempts) == (
        "succeeded",
        3,
        3,
        2,
        1,
        3,
    )


ITEM = "task_id = $1 and position = 1"
HISTORY = (
    "insert into media_task_attempts (id, task_id, position, round, number, started_at, finished_at, outcome) "
    "values (-1, $1, 1, 1, 1, now(), now(), '{}')"
)


@pytest.mark.parametrize(
    ("damage", "lost", "doubled"),
    [
        (f"delete from media_task_items where {ITEM}", True, False),
        (f"delete from drill_effects where {ITEM}", True, False),
        ("delete from outbox_events where task_id = $1 and type = 'task.ended'", True, False),
        (f"update media_task_items set state = 'failed', error_code = 'x' where {ITEM}", True, False),
        (f"update media_task_items set state = 'queued', finished_at = null where {ITEM}", True, False),
        (HISTORY.format("succeeded"), False, True),
        (f"update media_task_items set last_seq = last_seq + 1 where {ITEM}", False, True),
        (
            "insert into outbox_events (type, task_id) values ('task.ended', $1)",
            False,
            True,
        ),
        (HISTORY.format("lost"), False, False),
    ],
)
async def test_damage_is_counted(pool: Pool, damage: str, lost: bool, doubled: bool) -> None:
    task_id = await finished_task(pool)
    await pool.execute(damage, task_id)
    proof = await prove(pool, task_id)
    assert (proof.lost > 0, proof.doubled > 0) == (lost, doubled)
