"""When a task will have ended, from measured rates: its own, once enough of it has ended, else its queue's."""

from collections.abc import Sequence
from typing import Final

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.eta import Eta, estimate
from lingxi.domain.wire import Task
from lingxi.services.why import why_item

SLICES: Final = 12
WINDOW_SECONDS: Final = 300.0  # older than this says little about now
ENOUGH_ITEMS: Final = 5


async def estimate_end(
    connection: Connection, task: Task, finished_by_minute: Sequence[int] | None
) -> Eta | None:
    """None when it has ended, or when nothing was measured yet.

    `finished_by_minute`: of the task's queue, in the minutes before this one; None: Redis does not tell.
    """
    counts = task.counts
    remaining = counts.queued + counts.running + counts.retrying
    if not remaining:
        return None
    rows = await connection.fetch(sql("tasks/finished_slices"), task.id, task.round, SLICES, WINDOW_SECONDS)
    if sum(row["items"] for row in rows) >= ENOUGH_ITEMS:
        by_slice = {row["slice"]: row["items"] for row in rows}
        finished = [by_slice.get(number, 0) for number in range(1, SLICES + 1)]
        return estimate(finished, rows[0]["slice_seconds"], remaining)
    if finished_by_minute is None:
        return None
    first = await why_item(connection, task.workspace_id, task.id, 1)
    return estimate(finished_by_minute, 60.0, remaining + (first["ahead"] if first is not None else 0))
