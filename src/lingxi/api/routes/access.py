"""Sessions of browsers, the caller's workspace and its tokens, and all workspaces for operators."""

from typing import Annotated

import orjson
from fastapi import APIRouter, Path
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api.answers import json_answer, token_to_wire, unix_to_wire, workspace_to_wire
from lingxi.api.auth import SESSION_COOKIE, Admin, AnyCaller, Anyone, Caller, Operator, Viewer, seal_session
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import id_of, read_json, validated
from lingxi.api.signing import Signer
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, Forbidden, NotFound, Unauthenticated
from lingxi.domain.wire import time_to_wire
from lingxi.services.sign_in_links import PAGE, create_sign_in_link
from lingxi.services.tokens import create_token, list_tokens, revoke_token, rotate_token
from lingxi.services.workspaces import create_workspace, find_workspace, list_workspaces

router = APIRouter(prefix="/api/v1")

_NAME_TAKEN = Conflict("There is a workspace with this name already.")
_HOLDS_NO_MORE = Conflict("The token was revoked, or has expired.")
_NEW_TOKEN = TypeAdapter(schemas.NewToken)
_ROTATION = TypeAdapter(schemas.Rotation)
_NEW_WORKSPACE = TypeAdapter(schemas.NewWorkspace)
_ADMIN_NAME = "first admin"

TokenIdText = Annotated[str, Path(alias="tokenId", json_schema_extra={"format": "uuid"})]
WorkspaceIdText = Annotated[str, Path(alias="workspaceId", json_schema_extra={"format": "uuid"})]


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────
@router.post(
    "/session",
    tags=["Session"],
    **documented(
        summary="Open a browser session with a bearer token",
        status=201,
        meaning="The cookie is HttpOnly and SameSite=Strict; changing requests with it need this server's Origin.",
        answer=schemas.Session,
        example=examples.SESSION,
        headers={"Set-Cookie": {"schema": {"type": "string"}}},
        errors=doc.AUTHENTICATED,
    ),
)
async def open_session(request: Request, caller: AnyCaller) -> Response:
    if caller.by_session:
        raise Unauthenticated("A session is opened with a bearer token, not with another session.")
    if caller.role == "worker":
        raise Forbidden("A worker's token is for claiming and finishing items, and opens no session.")
    deps = deps_of(request)
    seconds = deps.config.session_seconds
    expires_at = int(deps.clock()) + seconds
    answer = {
        "role": caller.role,
        "workspaceId": None if caller.workspace_id is None else str(caller.workspace_id),
        "expiresAt": unix_to_wire(expires_at),
    }

    async def work(connection: Connection) -> Done:
        return Done(201, orjson.dumps(answer), f"token:{caller.token_id}")

    response = await _changes(request).run(_change(request, caller, "session.open"), work)
    value = seal_session(Signer(deps.config.secret_keys), caller, expires_at)
    response.set_cookie(
        SESSION_COOKIE,
        value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.delete(
    "/session",
    tags=["Session"],
    **documented(
        summary="End the browser session",
        status=204,
        meaning="The cookie is removed.",
        errors=doc.AUTHENTICATED,
    ),
)
async def end_session(request: Request, caller: AnyCaller) -> Response:
    async def work(connection: Connection) -> Done:
        return Done(204, b"", f"token:{caller.token_id}")

    response = await _changes(request).run(_change(request, caller, "session.end"), work)
    response.delete_cookie(
        SESSION_COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


@router.post(
    "/session/links",
    tags=["Session"],
    **documented(
        summary="Make a sign-in link",
        status=201,
        meaning="Good for ten minutes and for one browser, which is signed in by it in the name of the caller's token. "
        "The secret stands behind `#`, so that no server sees it in an address.",
        answer=schemas.SignInLink,
        example=examples.SIGN_IN_LINK,
        errors=doc.AUTHENTICATED,
    ),
)
async def make_sign_in_link(request: Request, caller: Viewer) -> Response:
    async def work(connection: Connection) -> Done:
        secret, expires_at = await create_sign_in_link(connection, caller.token_id)
        answer = {"url": PAGE + secret, "expiresAt": time_to_wire(expires_at)}
        return Done(201, orjson.dumps(answer), f"token:{caller.token_id}")

    change = Change(caller.workspace_id, caller.token_id, "session.link", request.scope["request_id"])
    return await _changes(request).run(change, work)


# ── the caller's workspace ───────────────────────────────────────────────────────────────────────────────
@router.get(
    "/workspace",
    tags=["Workspace"],
    **documented(
        summary="Show the caller's workspace",
        answer=schemas.Workspace,
        example=examples.WORKSPACE,
        errors=doc.AUTHENTICATED,
    ),
)
async def show_workspace(request: Request, caller: Viewer) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        workspace = await find_workspace(connection, str(caller.workspace_id))
    if workspace is None:
        raise NotFound
    return json_answer(workspace_to_wire(workspace))


@router.get(
    "/tokens",
    tags=["Workspace"],
    **documented(
        summary="List the workspace's tokens",
        answer=schemas.TokenList,
        example={"tokens": [examples.TOKEN]},
        errors=doc.AUTHENTICATED,
    ),
)
async def show_tokens(request: Request, caller: Admin) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        tokens = await list_tokens(connection, caller.workspace_id)
    return json_answer({"tokens": [token_to_wire(token) for token in tokens]})


@router.post(
    "/tokens",
    tags=["Workspace"],
    **documented(
        summary="Make a token for the workspace",
        status=201,
        meaning="Its secret is in this answer, and never again.",
        answer=schemas.CreatedToken,
        example=examples.CREATED_TOKEN,
        errors=(*doc.AUTHENTICATED, *doc.WITH_BODY),
        body=schemas.NewToken,
        body_example={"name": "ingest", "role": "editor", "lifetimeSeconds": None},
    ),
)
async def make_token(request: Request, caller: Admin) -> Response:
    new = validated(_NEW_TOKEN, await read_json(request))

    async def work(connection: Connection) -> Done:
        token, secret = await create_token(
            connection,
            workspace_id=caller.workspace_id,
            role=new.role,
            name=new.name,
            lifetime_seconds=new.lifetime_seconds,
        )
        return Done(201, orjson.dumps({**token_to_wire(token), "token": secret}), f"token:{token.id}")

    change = Change(caller.workspace_id, caller.token_id, "token.create", request.scope["request_id"])
    return await _changes(request).run(change, work)


@router.post(
    "/tokens/{tokenId}/rotate",
    tags=["Workspace"],
    **documented(
        summary="Make another token in the place of one",
        status=201,
        meaning="With the same role, name and lifetime. Its secret is in this answer, and never again. The old one holds for "
        "`overlapSeconds` more, by default not at all.",
        answer=schemas.CreatedToken,
        example=examples.CREATED_TOKEN,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _HOLDS_NO_MORE),
        body=schemas.Rotation,
        body_example={"overlapSeconds": 3600},
        body_required=False,
    ),
)
async def rotate(request: Request, caller: Admin, token_id: TokenIdText) -> Response:
    found = id_of(token_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        if all(token.id != found for token in await list_tokens(connection, caller.workspace_id)):
            raise NotFound
    asked = validated(_ROTATION, await read_json(request)) if await request.body() else schemas.Rotation()

    async def work(connection: Connection) -> Done:
        made = await rotate_token(
            connection, found, workspace_id=caller.workspace_id, overlap_seconds=asked.overlap_seconds
        )
        if made is None:
            raise _HOLDS_NO_MORE
        token, secret = made
        return Done(201, orjson.dumps({**token_to_wire(token), "token": secret}), f"token:{found}")

    response = await _changes(request).run(_change(request, caller, "token.rotate"), work)
    deps_of(request).hints.publish_access()
    return response


@router.delete(
    "/tokens/{tokenId}",
    tags=["Workspace"],
    **documented(
        summary="Revoke a token of the workspace",
        status=204,
        meaning="It does not work any more; open streams with it end. Again is the same.",
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def delete_token(request: Request, caller: Admin, token_id: TokenIdText) -> Response:
    found = id_of(token_id)

    async def work(connection: Connection) -> Done:
        if await revoke_token(connection, found, workspace_id=caller.workspace_id) is None:
            raise NotFound
        return Done(204, b"", f"token:{found}")

    change = Change(caller.workspace_id, caller.token_id, "token.revoke", request.scope["request_id"])
    response = await _changes(request).run(change, work)
    deps_of(request).hints.publish_access()
    return response


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────
@router.get(
    "/workspaces",
    tags=["Operator"],
    **documented(
        summary="List all workspaces",
        answer=schemas.WorkspaceList,
        example={"workspaces": [examples.WORKSPACE]},
        errors=doc.AUTHENTICATED,
    ),
)
async def show_workspaces(request: Request, caller: Operator) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        workspaces = await list_workspaces(connection)
    return json_answer({"workspaces": [workspace_to_wire(workspace) for workspace in workspaces]})


@router.get(
    "/workspaces/{workspaceId}",
    tags=["Operator"],
    **documented(
        summary="Show a workspace",
        answer=schemas.Workspace,
        example=examples.WORKSPACE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def show_one_workspace(request: Request, caller: Operator, workspace_id: WorkspaceIdText) -> Response:
    found = id_of(workspace_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        workspace = await find_workspace(connection, str(found))
    if workspace is None or workspace.id != found:
        raise NotFound
    return json_answer(workspace_to_wire(workspace))


@router.post(
    "/workspaces",
    tags=["Operator"],
    **documented(
        summary="Make a workspace, with its first admin token",
        status=201,
        meaning="The admin token's secret is in this answer, and never again: hand it to the workspace's admin.",
        answer=schemas.CreatedWorkspace,
        example=examples.CREATED_WORKSPACE,
        headers=doc.LOCATION_HEADER,
        errors=(*doc.AUTHENTICATED, *doc.WITH_BODY, _NAME_TAKEN),
        body=schemas.NewWorkspace,
        body_example={"name": "studio"},
    ),
)
async def make_workspace(request: Request, caller: Operator) -> Response:
    new = validated(_NEW_WORKSPACE, await read_json(request))

    async def work(connection: Connection) -> Done:
        workspace = await create_workspace(connection, new.name)
        if workspace is None:
            raise _NAME_TAKEN
        token, secret = await create_token(
            connection, workspace_id=workspace.id, role="admin", name=_ADMIN_NAME
        )
        answer = {**workspace_to_wire(workspace), "adminToken": {**token_to_wire(token), "token": secret}}
        location = {"Location": f"/api/v1/workspaces/{workspace.id}"}
        return Done(201, orjson.dumps(answer), f"workspace:{workspace.id}", location)

    return await _changes(request).run(_change(request, caller, "workspace.create"), work)


def _changes(request: Request) -> Changes:
    changes: Changes = request.app.state.changes
    return changes


def _change(request: Request, caller: Anyone | Caller, verb: str) -> Change:
    return Change(caller.workspace_id, caller.token_id, verb, request.scope["request_id"])
