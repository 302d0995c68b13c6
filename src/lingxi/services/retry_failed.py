"""Run the failed items of a task again, and only these, as a new round."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import Task
from lingxi.names import ITEMS_PER_EVENT
from lingxi.services.read_tasks import get_task


async def retry_failed(
    connection: Connection, workspace_id: UUID, task_id: UUID, *, items_per_event: int = ITEMS_PER_EVENT
) -> Task:
    """The task in its new round. Conflict while it is not final, or when nothing in it has failed."""
    answer = await connection.fetchval(sql("tasks/retry_failed"), workspace_id, task_id, items_per_event)
    match answer:
        case "not_ended":
            raise Conflict("The task has not ended; failed items can be retried when it has.")
        case "nothing_failed":
            raise Conflict("The task has no failed items.")
    task = await get_task(connection, workspace_id, task_id)
    if answer == "missing" or task is None:
        raise NotFound
    return task
