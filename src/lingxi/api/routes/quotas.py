"""A workspace sees its limits and what it has; an operator sets them."""

from typing import Any
from uuid import UUID

import orjson
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples
from lingxi.api import steering_schemas as shapes
from lingxi.api.answers import json_answer
from lingxi.api.auth import Operator, Viewer
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import id_of, read_json, validated
from lingxi.api.routes.access import WorkspaceIdText
from lingxi.db.session import Connection
from lingxi.domain.errors import NotFound
from lingxi.services.quotas import Quota, get_quota, read_usage, set_quota
from lingxi.services.workspaces import find_workspace

router = APIRouter(prefix="/api/v1")

_NEW = TypeAdapter(shapes.NewQuota)
_LIMITS: dict[str, Any] = {
    "requestsPerMinute": {"limit": 600, "own": True},
    "openItems": {"limit": 50_000, "used": 1_200, "own": False},
    "storedBytes": {"limit": None, "used": 73_400_320, "own": False},
}


@router.get(
    "/limits",
    tags=["Workspace"],
    **documented(
        summary="Show the workspace's limits, and what it has of each",
        meaning="Null: no limit. What is over one is refused with 42901.",
        answer=shapes.WorkspaceLimits,
        example=_LIMITS,
        errors=doc.AUTHENTICATED,
    ),
)
async def show(request: Request, caller: Viewer) -> Response:
    return json_answer(await _limits(request, caller.workspace_id))


@router.get(
    "/workspaces/{workspaceId}/quota",
    tags=["Operator"],
    **documented(
        summary="Show a workspace's limits, and what it has of each",
        answer=shapes.WorkspaceLimits,
        example=_LIMITS,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def show_one(request: Request, caller: Operator, workspace_id: WorkspaceIdText) -> Response:
    return json_answer(await _limits(request, await _existing(request, workspace_id)))


@router.put(
    "/workspaces/{workspaceId}/quota",
    tags=["Operator"],
    **documented(
        summary="Set a workspace's limits",
        meaning="All three, in place of what was set. Null: the deployment's; 0: none. They hold within five seconds.",
        answer=shapes.Quota,
        example={
            "workspaceId": examples.WORKSPACE["id"],
            "requestsPerMinute": 600,
            "openItems": None,
            "storedBytes": 0,
        },
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body=shapes.NewQuota,
        body_example={"requestsPerMinute": 600, "openItems": None, "storedBytes": 0},
    ),
)
async def put(request: Request, caller: Operator, workspace_id: WorkspaceIdText) -> Response:
    found = await _existing(request, workspace_id)
    asked = validated(_NEW, await read_json(request))

    async def work(connection: Connection) -> Done:
        await set_quota(
            connection, found, Quota(asked.requests_per_minute, asked.open_items, asked.stored_bytes)
        )
        answer = {"workspaceId": str(found), **asked.model_dump(by_alias=True)}
        return Done(200, orjson.dumps(answer), f"workspace:{found}")

    changes: Changes = request.app.state.changes
    change = Change(found, caller.token_id, "workspace.quota", request.scope["request_id"])
    response = await changes.run(change, work)
    deps_of(request).quotas.forget(found)
    return response


async def _existing(request: Request, text: str) -> UUID:
    wanted = id_of(text)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        workspace = await find_workspace(connection, str(wanted))
    if workspace is None or workspace.id != wanted:
        raise NotFound
    return wanted


async def _limits(request: Request, workspace_id: UUID) -> dict[str, Any]:
    deps = deps_of(request)
    async with deps.pool.acquire(timeout=5) as connection:
        own = await get_quota(connection, workspace_id)
        usage = await read_usage(connection, workspace_id)
    limits = own.over(deps.config.workspace_limits)
    return {
        "requestsPerMinute": {
            "limit": limits.requests_per_minute or None,
            "own": own.requests_per_minute is not None,
        },
        "openItems": {
            "limit": limits.open_items or None,
            "used": usage.open_items,
            "own": own.open_items is not None,
        },
        "storedBytes": {
            "limit": limits.stored_bytes or None,
            "used": usage.stored_bytes,
            "own": own.stored_bytes is not None,
        },
    }
