"""Prove from the rows that nothing of finished tasks was lost or done twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


@dataclass(frozen=True, slots=True)
class TaskProof:
    """What the rows of one task say. `ends` are its `task.ended` events: one a round."""

    id: UUID
    type: str
    status: str
    round: int
    total: int
    last_seq: int
    rows: int
    positions: int
    unfinished: int
    succeeded: int
    failed: int
    cancelled: int
    effects_missing: int
    succeeded_twice: int
    effects: int
    attempts: int
    attempts_lost: int
    numbers: int
    last_item_seq: int
    ends: int
    unpublished: int
    counters_agree: bool

    @property
    def lost(self) -> int:
        """Items without a row, without an end or without their effect, ends that were not told, wrong counters."""
        missing = self.total - self.positions
        untold = max(0, self.round - self.ends)
        return missing + self.unfinished + self.effects_missing + untold + (not self.counters_agree)

    @property
    def doubled(self) -> int:
        """Items with two rows or two successful attempts, ends told twice, numbers given twice."""
        told_twice = max(0, self.ends - self.round)
        same_number = self.rows - self.numbers + (self.last_item_seq >= self.last_seq)
        return self.rows - self.positions + self.succeeded_twice + told_twice + same_number


async def prove_tasks(connection: Connection, task_ids: Sequence[UUID]) -> list[TaskProof]:
    """One proof a task, oldest task first; a task that does not exist has none. Meant for tasks that have ended."""
    return [TaskProof(**dict(row)) for row in await connection.fetch(sql("proof/tasks"), task_ids)]
