"""What the pages are given: the API's own rules of who is who, as functions."""

from typing import Any

from starlette.requests import Request

from lingxi.api.album_access import album_access
from lingxi.api.auth import (
    SESSION_COOKIE,
    Caller,
    admit,
    is_same_origin,
    session_of,
    start_session,
    start_session_by_link,
)
from lingxi.api.deps import ApiDeps
from lingxi.api.share_cookies import open_share
from lingxi.domain.errors import Forbidden, NotFound, Unauthenticated
from lingxi.web.deps import Cookie, Look, Opened, PagesDeps, SignedIn


def pages_deps(deps: ApiDeps) -> PagesDeps:
    """The pages of the API process that `deps` belong to."""

    async def sign_in(secret: str) -> Cookie | None:
        session = await start_session(deps, secret)
        return None if session is None else Cookie(SESSION_COOKIE, *session)

    async def follow_link(secret: str) -> Cookie | None:
        session = await start_session_by_link(deps, secret)
        return None if session is None else Cookie(SESSION_COOKIE, *session)

    async def who(request: Any) -> SignedIn | None:
        caller = await session_of(deps, request)
        if caller is None or caller.workspace_id is None:
            return None
        await admit(request, Caller(caller.token_id, caller.role, caller.workspace_id))
        return SignedIn(caller.workspace_id, caller.role)

    return PagesDeps(deps.pool, SESSION_COOKIE, sign_in, follow_link, who, is_same_origin, _open, _look)


async def _open(request: Request, secret: str) -> Opened | None:
    opened = await open_share(request, secret)
    if opened is None:
        return None
    return Opened(opened.album_id, Cookie(opened.cookie_name, opened.cookie, opened.max_age_seconds))


async def _look(request: Request, album_id: str) -> Look | None:
    try:
        access = await album_access(request, album_id)
    except (Unauthenticated, Forbidden, NotFound):
        return None
    return Look(access.album_id, access.workspace_id, access.member)
