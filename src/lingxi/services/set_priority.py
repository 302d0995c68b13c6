"""Change a task's priority while it waits."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import Task
from lingxi.names import ITEMS_PER_EVENT
from lingxi.services.read_tasks import get_task


async def set_priority(connection: Connection, workspace_id: UUID, task_id: UUID, priority: int) -> Task:
    """The task with its new priority (0 is the most urgent).

    What waits in the outbox changes its place at once. What waits in Redis already gets a second job when it has become more
    urgent; when less, it keeps its place. Conflict when the task has ended.
    """
    row = await connection.fetchrow(sql("tasks/lock_live"), workspace_id, task_id)
    if row is None:
        raise NotFound
    if row["ended"]:
        raise Conflict("The task has ended; nothing waits any more.")
    if row["priority"] != priority:
        again = priority < row["priority"]
        await connection.execute(sql("tasks/set_priority"), task_id, priority, again, ITEMS_PER_EVENT)
    task = await get_task(connection, workspace_id, task_id)
    assert task is not None
    return task
