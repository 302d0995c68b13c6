"""The priority of a task that waits."""

import orjson
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api import steering_schemas as shapes
from lingxi.api.auth import Editor
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import TaskIdText, read_json, task_id_of, validated
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import task_to_wire
from lingxi.names import PRIORITIES
from lingxi.services.read_tasks import get_task
from lingxi.services.set_priority import set_priority

router = APIRouter(prefix="/api/v1", tags=["Tasks"])

_NEW = TypeAdapter(shapes.NewPriority)
_ENDED = Conflict("The task has ended; nothing waits any more.")


@router.post(
    "/media-tasks/{taskId}/priority",
    **documented(
        summary="Change a task's priority while it waits",
        meaning="What waits in the outbox changes its place; what was sent already and becomes more urgent is sent again.",
        answer=schemas.Task,
        example={**examples.SUBMITTED, "priority": "live"},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _ENDED),
        body=shapes.NewPriority,
        body_example={"priority": "live"},
    ),
)
async def change(request: Request, caller: Editor, task_id: TaskIdText) -> Response:
    found = task_id_of(task_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        if await get_task(connection, caller.workspace_id, found) is None:
            raise NotFound
    asked = validated(_NEW, await read_json(request))

    async def work(connection: Connection) -> Done:
        task = await set_priority(connection, caller.workspace_id, found, PRIORITIES[asked.priority])
        return Done(200, orjson.dumps(task_to_wire(task)), f"task:{task.id}")

    changes: Changes = request.app.state.changes
    asked_for = Change(caller.workspace_id, caller.token_id, "task.priority", request.scope["request_id"])
    response = await changes.run(asked_for, work)
    deps_of(request).hints.publish_outbox()
    return response
