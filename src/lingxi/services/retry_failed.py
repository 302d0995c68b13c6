"""Run the failed items of a task again, and only these, as a new round: all of them, some, or first one of each cause."""

from collections.abc import Sequence
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import Task
from lingxi.names import ITEMS_PER_EVENT
from lingxi.services.read_tasks import get_task


async def retry_failed(
    connection: Connection,
    workspace_id: UUID,
    task_id: UUID,
    *,
    only: Sequence[str] | None = None,
    canary: bool = False,
    items_per_event: int = ITEMS_PER_EVENT,
) -> Task:
    """The task in its new round. Conflict while it is not final, or when nothing (of what was chosen) has failed.

    `only`: items that failed with one of these codes. `canary`: one item of each code is the round, and the rest of those whose
    canary succeeds is the next one: `services/retry_plans.py`.
    """
    if only is None and not canary:
        answer = await connection.fetchval(sql("tasks/retry_failed"), workspace_id, task_id, items_per_event)
    else:
        codes = None if only is None else list(only)
        answer = await connection.fetchval(
            sql("tasks/retry_failed_items"), workspace_id, task_id, items_per_event, codes, canary
        )
    match answer:
        case "not_ended":
            raise Conflict("The task has not ended; failed items can be retried when it has.")
        case "nothing_failed":
            raise Conflict("The task has no failed items.")
        case "nothing_chosen":
            raise Conflict("No item of the task has failed with one of these codes.")
    task = await get_task(connection, workspace_id, task_id)
    if answer == "missing" or task is None:
        raise NotFound
    return task
