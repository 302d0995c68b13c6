"""The feed of an album, and the short-lived token that opens it where no header can be set."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import schemas
from lingxi.api.album_access import album_access
from lingxi.api.answers import json_answer, unix_to_wire
from lingxi.api.auth import Viewer
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.routes.stream import LAST_EVENT_ID_PARAMETER
from lingxi.api.sse import last_event_id, open_events
from lingxi.stream.subject import AlbumKey
from lingxi.stream.tokens import StreamGrant

router = APIRouter(prefix="/api/v1", tags=["Albums"])

AlbumIdText = Annotated[
    str, Path(alias="albumId", description="The album's id.", json_schema_extra={"format": "uuid"})
]
_EVENT = {
    "type": "object",
    "description": "One event; the content is a stream of these. `data` is JSON.",
    "properties": {
        "event": {"type": "string", "enum": ["snapshot", "photo", "removed", "reset", "closing"]},
        "id": {"type": "string"},
        "data": {"type": "string"},
    },
}
_EXAMPLE = (
    "retry: 1500\n\nid: 12\nevent: removed\n"
    'data: {"id":"3f0e8f5a-6f0e-4a3c-9a57-3f6c2b7f1f10","visibility":"recalled"}\n\n'
)


@router.get(
    "/albums/{albumId}/events",
    **documented(
        summary="Watch an album (server-sent events)",
        meaning="Frames `snapshot`, `photo`, `removed`, `reset`, `closing`; `id` is the album's number. Members see every "
        "photo and how far it is; with a share link's cookie only what is published.",
        content={"text/event-stream": {"schema": _EVENT, "example": _EXAMPLE}},
        shared=True,
        errors=(*doc.SHARED, doc.NOT_FOUND, doc.TOO_MANY_STREAMS),
        parameters=[LAST_EVENT_ID_PARAMETER],
    ),
)
async def album_events(
    request: Request,
    album_id: AlbumIdText,
    token: Annotated[
        str | None, Query(description="A stream token, instead of a bearer token, a session or a share link.")
    ] = None,
    last_event: Annotated[
        str | None,
        Query(
            alias="lastEventId",
            description="As Last-Event-ID, for the first connection; 0 replays every photo.",
        ),
    ] = None,
) -> Response:
    access = await album_access(request, album_id, stream_token=token)
    return await open_events(
        deps_of(request).hub,
        AlbumKey(access.album_id, shared=not access.member),
        workspace_id=access.workspace_id,
        grant=access.grant,
        last_event_id=last_event_id(request.headers, last_event),
        address=request.client.host if request.client is not None else None,
    )


@router.post(
    "/albums/{albumId}/stream-token",
    **documented(
        summary="Make a stream token for an album",
        meaning="Good for minutes, for this album's events only. It changes nothing, so it is not audited.",
        answer=schemas.StreamToken,
        example={"token": "AWk2…", "expiresAt": "2026-12-01T20:05:00.000000Z"},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def album_stream_token(request: Request, caller: Viewer, album_id: AlbumIdText) -> Response:
    deps = deps_of(request)
    access = await album_access(request, album_id)
    grant = StreamGrant(access.workspace_id, access.album_id, caller.token_id)
    token, expires_at = deps.stream_tokens.sign(grant, lifetime_seconds=deps.config.stream_token_seconds)
    return json_answer({"token": token, "expiresAt": unix_to_wire(expires_at)})
