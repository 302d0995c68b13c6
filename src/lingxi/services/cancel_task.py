"""Cancel a task: what has not started ends as `cancelled`, what runs finishes and keeps its result."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import Task
from lingxi.services.read_tasks import get_task


async def cancel_task(connection: Connection, workspace_id: UUID, task_id: UUID) -> Task:
    """The task after the cancel; the same task when it was asked before. Conflict when it has ended otherwise."""
    answer = await connection.fetchval(sql("tasks/cancel"), workspace_id, task_id)
    if answer == "ended":
        raise Conflict("The task has ended; there is nothing left to cancel.")
    task = await get_task(connection, workspace_id, task_id)
    if answer == "missing" or task is None:
        raise NotFound
    return task
