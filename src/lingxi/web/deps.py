"""What the pages are given by whoever composes the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request

from lingxi.db.session import Pool


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who looks at a page."""

    workspace_id: UUID
    role: str


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie to set: HttpOnly, SameSite=Strict, for the whole site."""

    name: str
    value: str
    max_age_seconds: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A share link that was exchanged: the album that it opens, and the cookie that opens it from now on."""

    album_id: UUID
    cookie: Cookie


@dataclass(frozen=True, slots=True)
class Look:
    """Somebody who may look at an album: with a share link, or as a member of its workspace."""

    album_id: UUID
    workspace_id: UUID
    member: bool


@dataclass(frozen=True, slots=True)
class PagesDeps:
    """What the pages are given.

    `who` knows a request by its session cookie, and counts it for the workspace's rate. `sign_in` takes a token's secret and
    `follow_link` a sign-in link's, and both answer the session's cookie, or None. `open_share` takes a share link's secret
    (None: it opens nothing), and `look` says whether the request may see the album whose id stands in its path. All but the
    second and third raise OverLimit.
    """

    pool: Pool
    session_cookie_name: str
    sign_in: Callable[[str], Awaitable[Cookie | None]]
    follow_link: Callable[[str], Awaitable[Cookie | None]]
    who: Callable[[Request], Awaitable[SignedIn | None]]
    same_origin: Callable[[Request], bool]
    open_share: Callable[[Request, str], Awaitable[Opened | None]]
    look: Callable[[Request, str], Awaitable[Look | None]]
