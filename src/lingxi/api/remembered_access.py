"""Who may fetch an album's pictures, decided from memory: no statement for a request, however many there are.

The same answers as `album_access`, at most a second old (`album_memory`).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from uuid import UUID

from starlette.requests import Request

from lingxi.api.album_memory import VisibleAlbum
from lingxi.api.auth import (
    BAD_TOKEN,
    NO_TOKEN,
    SESSION_COOKIE,
    Anyone,
    bearer_secret,
    find_bearer,
    member_of_role,
    open_session_cookie,
)
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.reading import id_of
from lingxi.api.share_cookies import count_share_request, is_share_viewer, share_of
from lingxi.domain.errors import LingxiError, NotFound
from lingxi.domain.ids import parse_uuid
from lingxi.services.visible_albums import VisibleVariant

_MAX_TOKENS = 10_000
_NO_ALBUM = UUID(int=0)


class KnownTokens:
    """Whose token it is, by its SHA-256: that never changes. Whether it still holds is asked of the album memory."""

    def __init__(self) -> None:
        self._callers: OrderedDict[bytes, Anyone] = OrderedDict()

    async def find(self, deps: ApiDeps, secret: str) -> Anyone | None:
        """The caller; None for a token that is not known, with one statement."""
        digest = hashlib.sha256(secret.encode("utf-8", "replace")).digest()
        caller = self._callers.get(digest)
        if caller is None and (caller := await find_bearer(deps, secret)) is not None:
            self._callers[digest] = caller
            if len(self._callers) > _MAX_TOKENS:
                self._callers.popitem(last=False)
        return caller


async def visible_variant(request: Request, album_id: str, photo_id: str, file_name: str) -> VisibleVariant:
    """The published picture that the path names, for whoever may see it.

    What memory does not know is looked for once more: it may have been published a moment ago, and its viewers were told by
    another process. Raises Unauthenticated (401), Forbidden (403), NotFound (404), OverLimit (429) as `album_access` does.
    """
    found = _variant(await _visible_album(request, album_id), photo_id, file_name)
    if found is None:
        found = _variant(await _visible_album(request, album_id, anew=True), photo_id, file_name)
    if found is None:
        raise NotFound
    return found


def _variant(album: VisibleAlbum, photo_id: str, file_name: str) -> VisibleVariant | None:
    return album.photos.get(id_of(photo_id), {}).get(file_name)


async def _visible_album(request: Request, album_id: str, *, anew: bool = False) -> VisibleAlbum:
    deps = deps_of(request)
    if given := request.headers.getlist("authorization"):
        known: KnownTokens = request.app.state.known_tokens
        secret = bearer_secret(given)
        caller = None if secret is None else await known.find(deps, secret)
        if caller is None:
            raise BAD_TOKEN
        return await _as_member(deps, caller, album_id, anew)
    cookie = request.cookies.get(SESSION_COOKIE)
    caller = open_session_cookie(deps, cookie) if cookie else None
    refusal: LingxiError = BAD_TOKEN if cookie else NO_TOKEN
    if caller is not None:
        try:
            return await _as_member(deps, caller, album_id, anew)
        except LingxiError as error:
            refusal = error
    return await _as_guest(deps, request, album_id, refusal, anew)


async def _as_member(deps: ApiDeps, caller: Anyone, text: str, anew: bool) -> VisibleAlbum:
    album, holds = await deps.albums.look(parse_uuid(text) or _NO_ALBUM, caller.token_id, anew=anew)
    if not holds:
        raise BAD_TOKEN
    member = member_of_role(caller, "viewer")
    if album is None or album.workspace_id != member.workspace_id:
        raise NotFound
    return album


async def _as_guest(
    deps: ApiDeps, request: Request, text: str, refusal: LingxiError, anew: bool
) -> VisibleAlbum:
    album_id = parse_uuid(text)
    share = None if album_id is None else share_of(deps, request, album_id)
    if share is None:
        raise NotFound if refusal is NO_TOKEN and is_share_viewer(deps, request) else refusal
    count_share_request(request)
    grant: Hashable = ("share", share.share_id)
    album, holds = await deps.albums.look(share.album_id, grant, anew=anew)
    if album is None or not holds:
        raise NotFound
    return album
