"""Operators rename workspaces, disable and enable them. Lists and new ones are in `access.py`."""

from uuid import UUID

import orjson
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api.answers import workspace_to_wire
from lingxi.api.auth import Anyone, Operator
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import id_of, read_json, read_nothing, validated
from lingxi.api.routes.access import WorkspaceIdText
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.services.workspaces import disable_workspace, find_workspace, rename_workspace


class _Named(StringConvertor):
    """A segment of a path that is no address of its own: `caps` is the list in `caps.py`, which takes no PATCH (405)."""

    regex = "(?!caps$)[^/]+"


register_url_convertor("workspace", _Named())
router = APIRouter(prefix="/api/v1/workspaces", tags=["Operator"])

_NEW_NAME = TypeAdapter(schemas.NewWorkspace)
_NAME_TAKEN = Conflict("There is a workspace with this name already.")
_DISABLED = {**examples.WORKSPACE, "disabledAt": "2026-12-01T12:00:00.000000Z"}


@router.patch(
    "/{workspaceId:workspace}",
    **documented(
        summary="Rename a workspace",
        answer=schemas.Workspace,
        example=examples.WORKSPACE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _NAME_TAKEN),
        body=schemas.NewWorkspace,
        body_example={"name": "studio"},
    ),
)
async def rename(request: Request, caller: Operator, workspace_id: WorkspaceIdText) -> Response:
    wanted = await _existing(request, workspace_id)
    new = validated(_NEW_NAME, await read_json(request))

    async def work(connection: Connection) -> Done:
        renamed = await rename_workspace(connection, wanted, new.name)
        if renamed is None:
            raise _NAME_TAKEN
        return Done(200, orjson.dumps(workspace_to_wire(renamed)), f"workspace:{wanted}")

    changes: Changes = request.app.state.changes
    change = Change(wanted, caller.token_id, "workspace.rename", request.scope["request_id"])
    return await changes.run(change, work)


@router.post(
    "/{workspaceId}/disable",
    **documented(
        summary="Disable a workspace",
        meaning="Nobody gets in: its tokens, sessions and share links do not hold, and open streams end. What was accepted is "
        "finished. Again is the same.",
        answer=schemas.Workspace,
        example=_DISABLED,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def disable(request: Request, caller: Operator, workspace_id: WorkspaceIdText) -> Response:
    return await _disable(request, caller, workspace_id, True)


@router.post(
    "/{workspaceId}/enable",
    **documented(
        summary="Enable a workspace again",
        meaning="Its tokens and share links hold again, unless they were revoked or have expired. Again is the same.",
        answer=schemas.Workspace,
        example=examples.WORKSPACE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def enable(request: Request, caller: Operator, workspace_id: WorkspaceIdText) -> Response:
    return await _disable(request, caller, workspace_id, False)


async def _disable(request: Request, caller: Anyone, workspace_id: str, disabled: bool) -> Response:
    wanted = await _existing(request, workspace_id)
    await read_nothing(request)

    async def work(connection: Connection) -> Done:
        workspace = await disable_workspace(connection, wanted, disabled)
        if workspace is None:
            raise NotFound
        return Done(200, orjson.dumps(workspace_to_wire(workspace)), f"workspace:{wanted}")

    changes: Changes = request.app.state.changes
    verb = "workspace.disable" if disabled else "workspace.enable"
    response = await changes.run(Change(wanted, caller.token_id, verb, request.scope["request_id"]), work)
    deps_of(request).hints.publish_access()
    return response


async def _existing(request: Request, text: str) -> UUID:
    wanted = id_of(text)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        found = await find_workspace(connection, str(wanted))
    if found is None or found.id != wanted:
        raise NotFound
    return wanted
