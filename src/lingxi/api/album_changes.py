"""What the changing routes of albums share: one transaction with its audit row, and hints once it is committed."""

from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import UUID

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api.auth import Caller
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.reading import id_of
from lingxi.db.session import Connection
from lingxi.domain.errors import LingxiError
from lingxi.domain.photos import Album
from lingxi.services.albums import get_album
from lingxi.services.remember_answer import KeyScope

AlbumIdText = Annotated[
    str, Path(alias="albumId", description="The album's id.", json_schema_extra={"format": "uuid"})
]
PhotoIdText = Annotated[
    str, Path(alias="photoId", description="The photo's id.", json_schema_extra={"format": "uuid"})
]
ShareIdText = Annotated[
    str, Path(alias="shareId", description="The share link's id.", json_schema_extra={"format": "uuid"})
]


async def own_album(request: Request, caller: Caller, text: str) -> Album:
    """The album of the caller's workspace; NotFound, the same for another's and for no id at all."""
    album_id = id_of(text)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        return await get_album(connection, caller.workspace_id, album_id)


async def audited_change(
    request: Request,
    caller: Caller,
    verb: str,
    album_id: UUID | None,
    work: Callable[[Connection], Awaitable[Done]],
    *,
    key: str | None = None,
    digest: bytes = b"",
    refusal: LingxiError | None = None,
) -> Response:
    """Do the work once, audited; viewers of the album and the dispatcher hear of it when it is committed."""
    deps = deps_of(request)
    changes: Changes = request.app.state.changes
    change = Change(caller.workspace_id, caller.token_id, verb, request.scope["request_id"])
    scope = None
    if key is not None:
        scope = KeyScope(caller.workspace_id, request.method, request.scope["path"], key)
    response = await changes.run_once(change, scope, digest, work, refusal=refusal)
    deps.hints.publish_outbox()
    if album_id is not None:
        deps.albums.doubt([album_id])  # at once here, and by the hint in the other processes
        deps.hints.publish_albums([album_id])
    return response
