"""The event stream of a task, and the short-lived token that opens it where no header can be set."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api.answers import json_answer, unix_to_wire
from lingxi.api.auth import Viewer, authenticated, viewer
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import TaskIdText, task_id_of
from lingxi.api.sse import last_event_id, open_events
from lingxi.domain.errors import NotFound, Unauthenticated
from lingxi.domain.ids import parse_uuid
from lingxi.services.read_tasks import get_task
from lingxi.services.tokens import still_valid
from lingxi.stream.tokens import StreamGrant

router = APIRouter(prefix="/api/v1", tags=["Stream"])

_EVENT = {
    "type": "object",
    "description": "One event; the content is a stream of these. `data` is JSON.",
    "properties": {
        "event": {
            "type": "string",
            "enum": ["snapshot", "item", "progress", "itemProgress", "end", "reset", "closing"],
        },
        "id": {"type": "string"},
        "data": {"type": "string"},
    },
}
LAST_EVENT_ID_PARAMETER = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Go on after this number; wins over `lastEventId`.",
    "schema": {"type": "string"},
}


@router.get(
    "/media-tasks/{taskId}/events",
    **documented(
        summary="Watch a task (server-sent events)",
        meaning="Frames `snapshot`, `item`, `progress`, `itemProgress`, `end`, `reset`, `closing`; `id` is the "
        "task's sequence number.",
        content={"text/event-stream": {"schema": _EVENT, "example": examples.STREAM}},
        also={
            204: {
                "description": "The id is the number of a task that has ended: there is nothing more to come."
            }
        },
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, doc.TOO_MANY_STREAMS),
        parameters=[LAST_EVENT_ID_PARAMETER],
    ),
)
async def events(
    request: Request,
    task_id: TaskIdText,
    token: Annotated[
        str | None, Query(description="A stream token, instead of a bearer token or a session.")
    ] = None,
    last_event: Annotated[
        str | None,
        Query(
            alias="lastEventId",
            description="As Last-Event-ID, for the first connection; 0 replays every item.",
        ),
    ] = None,
) -> Response:
    deps = deps_of(request)
    if token is not None and "authorization" not in request.headers:
        grant = await _by_stream_token(deps, token, task_id)
    else:
        caller = await viewer(request, await authenticated(request))
        grant = StreamGrant(caller.workspace_id, task_id_of(task_id), caller.token_id)
    return await open_events(
        deps.hub,
        grant.task_id,
        workspace_id=grant.workspace_id,
        grant=grant.token_id,
        last_event_id=last_event_id(request.headers, last_event),
        address=request.client.host if request.client is not None else None,
    )


async def _by_stream_token(deps: ApiDeps, token: str, task_id: str) -> StreamGrant:
    """What the token allows; Unauthenticated when it is forged, out of date, for another task, or its owner's was revoked."""
    grant = deps.stream_tokens.verify(token, parse_uuid(task_id) or UUID(int=0))
    if grant is not None:
        async with deps.pool.acquire(timeout=5) as connection:
            if await still_valid(connection, [grant.token_id]):
                return grant
    raise Unauthenticated("The stream token is not valid: unknown, expired, or for another task.")


@router.post(
    "/media-tasks/{taskId}/stream-token",
    **documented(
        summary="Make a stream token for a task",
        meaning="Good for minutes, for this task's events only. It changes nothing, so it is not audited.",
        answer=schemas.StreamToken,
        example={"token": "AWk2…", "expiresAt": "2026-12-01T20:05:00.000000Z"},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def stream_token(request: Request, caller: Viewer, task_id: TaskIdText) -> Response:
    deps = deps_of(request)
    found = task_id_of(task_id)
    async with deps.pool.acquire(timeout=5) as connection:
        if await get_task(connection, caller.workspace_id, found) is None:
            raise NotFound
    grant = StreamGrant(caller.workspace_id, found, caller.token_id)
    token, expires_at = deps.stream_tokens.sign(grant, lifetime_seconds=deps.config.stream_token_seconds)
    return json_answer({"token": token, "expiresAt": unix_to_wire(expires_at)})
