"""Operators bound how many items of a workspace run at once."""

from typing import Any

import orjson
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples
from lingxi.api import worker_schemas as shapes
from lingxi.api.answers import json_answer
from lingxi.api.auth import Operator
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import id_of, read_json, validated
from lingxi.api.routes.access import WorkspaceIdText
from lingxi.db.session import Connection
from lingxi.domain.errors import NotFound
from lingxi.services.workspace_caps import list_caps, set_cap
from lingxi.services.workspaces import find_workspace

router = APIRouter(prefix="/api/v1/workspaces", tags=["Operator"])

_NEW_CAP = TypeAdapter(shapes.NewCap)
_EXAMPLE: dict[str, Any] = {"workspaceId": examples.WORKSPACE["id"], "maxRunning": 20}


@router.get(
    "/caps",
    **documented(
        summary="List caps on running items",
        answer=shapes.CapList,
        example={"caps": [{**_EXAMPLE, "running": 7}]},
        errors=doc.AUTHENTICATED,
    ),
)
async def list_(request: Request, caller: Operator) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        found = await list_caps(connection)
    caps = [
        {"workspaceId": str(one.workspace_id), "maxRunning": one.max_running, "running": one.running}
        for one in found
    ]
    return json_answer({"caps": caps})


@router.put(
    "/{workspaceId}/cap",
    **documented(
        summary="Bound how many items of a workspace run at once",
        meaning="It holds from the next claim on; what runs goes on. Null lifts it.",
        answer=shapes.Cap,
        example=_EXAMPLE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body=shapes.NewCap,
        body_example={"maxRunning": 20},
    ),
)
async def put(request: Request, caller: Operator, workspace_id: WorkspaceIdText) -> Response:
    wanted = id_of(workspace_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        if await find_workspace(connection, str(wanted)) is None:
            raise NotFound
    asked = validated(_NEW_CAP, await read_json(request))

    async def work(connection: Connection) -> Done:
        await set_cap(connection, wanted, asked.max_running)
        answer = {"workspaceId": str(wanted), "maxRunning": asked.max_running}
        return Done(200, orjson.dumps(answer), f"workspace:{wanted}")

    changes: Changes = request.app.state.changes
    change = Change(wanted, caller.token_id, "workspace.cap", request.scope["request_id"])
    return await changes.run(change, work)
