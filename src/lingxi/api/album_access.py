"""Who may see an album: a member of its workspace (token, session, stream token), or the holder of one of its share links.

Whoever may not is answered as if the album did not exist (404); without any way to be known at all it is 401. A share link
never changes anything, and opens nothing but its album.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from starlette.requests import Request

from lingxi.api.auth import Anyone, admit, authenticated, member_of_role
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.reading import id_of
from lingxi.api.share_cookies import count_share_request, share_of
from lingxi.db.session import Connection
from lingxi.domain.errors import LingxiError, NotFound, Unauthenticated
from lingxi.domain.ids import parse_uuid
from lingxi.domain.photos import Album
from lingxi.services.albums import find_album, get_album
from lingxi.services.share_links import valid_share_links
from lingxi.services.tokens import still_valid

AlbumRole = Literal["viewer", "editor", "admin", "share"]


@dataclass(frozen=True, slots=True)
class AlbumAccess:
    """Somebody who may see an album, and how much of it.

    `grant` is what open streams are asked about (`services/valid_grants.py`): a token's id, or ("share", the link's id).
    `originals`: may the original files be fetched?
    """

    album_id: UUID
    workspace_id: UUID
    role: AlbumRole
    grant: Hashable
    originals: bool

    @property
    def member(self) -> bool:
        """Of the workspace: sees photos that are not published, too."""
        return self.role != "share"


async def album_access(
    request: Request, album_id: str, *, needs: AlbumRole = "viewer", stream_token: str | None = None
) -> AlbumAccess:
    """What the caller may do with the album whose id stands in the path.

    `needs` is the least role of a member (a share link is asked about by the route itself). A `stream_token` counts where no
    Authorization is given. Raises Unauthenticated (401), Forbidden (403), NotFound (404) in this order.
    """
    deps = deps_of(request)
    if stream_token is not None and "authorization" not in request.headers:
        return await _by_stream_token(deps, stream_token, album_id)
    try:
        caller = await authenticated(request)
    except LingxiError as refusal:
        shared = await _by_share(deps, request, album_id) if _may_be_shared(request, refusal) else None
        if shared is None:
            raise
        return shared
    try:
        return await _by_member(request, caller, album_id, needs)
    except LingxiError:
        shared = await _by_share(deps, request, album_id) if caller.by_session else None
        if shared is None:
            raise
        return shared


def _may_be_shared(request: Request, refusal: LingxiError) -> bool:
    """A bearer token is meant: where it is bad, no cookie helps."""
    return "authorization" not in request.headers and isinstance(refusal, Unauthenticated | NotFound)


async def _by_member(request: Request, caller: Anyone, text: str, needs: AlbumRole) -> AlbumAccess:
    deps, member = deps_of(request), member_of_role(caller, needs)
    await admit(request, member)
    album_id = id_of(text)
    async with deps.pool.acquire(timeout=5) as connection:
        album = await get_album(connection, member.workspace_id, album_id)
    role: AlbumRole = "admin" if member.role == "admin" else "editor" if member.role == "editor" else "viewer"
    return AlbumAccess(album.id, album.workspace_id, role, member.token_id, originals=role != "viewer")


async def _by_share(deps: ApiDeps, request: Request, text: str) -> AlbumAccess | None:
    album_id = parse_uuid(text)
    grant = None if album_id is None else share_of(deps, request, album_id)
    if album_id is None or grant is None:
        return None
    count_share_request(request)
    async with deps.pool.acquire(timeout=5) as connection:
        album = await _shared_album(connection, grant.share_id, album_id)
    return AlbumAccess(
        album.id, album.workspace_id, "share", ("share", grant.share_id), originals=album.originals_shared
    )


async def _shared_album(connection: Connection, share_id: UUID, album_id: UUID) -> Album:
    """The album that the link opens; NotFound when it was revoked, has expired, or the album is deleted."""
    valid = await valid_share_links(connection, [share_id])
    if valid.get(share_id) != album_id or (album := await find_album(connection, album_id)) is None:
        raise NotFound
    return album


async def _by_stream_token(deps: ApiDeps, token: str, text: str) -> AlbumAccess:
    album_id = parse_uuid(text)
    grant = None if album_id is None else deps.stream_tokens.verify(token, album_id)
    if grant is None:
        raise Unauthenticated("The stream token is not valid: unknown, expired, or for something else.")
    async with deps.pool.acquire(timeout=5) as connection:
        if not await still_valid(connection, [grant.token_id]):
            raise Unauthenticated("The stream token is not valid: unknown, expired, or for something else.")
        album = await get_album(connection, grant.workspace_id, grant.task_id)
    return AlbumAccess(album.id, album.workspace_id, "viewer", grant.token_id, originals=False)
