"""Find items that wait in PostgreSQL and have no job in Redis, and put them in the outbox again."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.ids import item_id

NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A live task with waiting items."""

    id: UUID
    type: str
    round: int


async def waiting_tasks(
    connection: Connection, queues: Sequence[str], *, after: UUID = NO_ID, limit: int = 100
) -> list[WaitingTask]:
    """Live tasks of these queues with waiting items, by id."""
    rows = await connection.fetch(sql("tasks/with_waiting"), queues, after, limit)
    return [WaitingTask(row["id"], row["type"], row["round"]) for row in rows]


async def expected_jobs(
    connection: Connection, task: WaitingTask, *, published_seconds_ago: float
) -> dict[int, list[str]]:
    """By position of a waiting item: the ids of the jobs that were sent for it. Present is an item with any of them in Redis."""
    jobs: dict[int, list[str]] = defaultdict(list)
    for row in await connection.fetch(sql("outbox/rung"), task.id, task.round, published_seconds_ago):
        jobs[row["position"]].append(f"{row['event_id']}-{item_id(task.id, row['position'])}")
    return jobs


async def requeue_items(connection: Connection, task_id: UUID, positions: Sequence[int]) -> int:
    """A new event for those of `positions` that still wait and that no event on its way covers; answers how many."""
    return await connection.fetchval(sql("outbox/requeue_items"), task_id, positions) or 0
