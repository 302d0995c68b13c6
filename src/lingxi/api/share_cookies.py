"""The cookie that a share link is exchanged for: one for each album, signed, and good while its link is.

It names the link and never holds its secret, so that revoking the link ends it at once. HttpOnly, SameSite=Strict; the exchange
itself is a page (`/s/{secret}`), which calls `open_share`.
"""

from dataclasses import dataclass
from math import ceil
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.rates import AddressRates
from lingxi.api.signing import Signer
from lingxi.domain.errors import OverLimit
from lingxi.services.share_links import find_share_link

COOKIE_PREFIX = "lingxi_share_"
COOKIE_SECONDS = 30 * 86_400  # the link may end sooner; it is asked each time
_MAX_SECRET_CHARACTERS = 100
_MAX_COOKIES = 200  # more than any browser keeps for one site


@dataclass(frozen=True, slots=True)
class OpenedShare:
    """A share link that was exchanged: where it leads, and the cookie that opens it from now on."""

    album_id: UUID
    cookie: str
    max_age_seconds: int

    @property
    def cookie_name(self) -> str:
        return cookie_name(self.album_id)

    def set_on(self, response: Response, *, secure: bool) -> None:
        """Put the cookie on an answer; `secure` when the request came by https."""
        response.set_cookie(
            self.cookie_name,
            self.cookie,
            max_age=self.max_age_seconds,
            path="/",
            httponly=True,
            samesite="strict",
            secure=secure,
        )


@dataclass(frozen=True, slots=True)
class ShareGrant:
    """What a genuine cookie says: this link, for this album. Whether the link still holds is asked elsewhere."""

    share_id: UUID
    album_id: UUID


def cookie_name(album_id: UUID) -> str:
    """One cookie an album, so that guests of several albums keep them all."""
    return COOKIE_PREFIX + album_id.hex


async def open_share(request: Request, secret: str) -> OpenedShare | None:
    """Exchange a secret for a cookie; None when it is unknown, expired or revoked, or its album is deleted.

    Raises OverLimit (429) when the request's address has tried too often.
    """
    deps = deps_of(request)
    _count(request, request.app.state.share_exchanges)
    if not 0 < len(secret) <= _MAX_SECRET_CHARACTERS:
        return None
    async with deps.pool.acquire(timeout=5) as connection:
        link = await find_share_link(connection, secret)
    if link is None:
        return None
    now = int(deps.clock())
    seconds = COOKIE_SECONDS
    if link.expires_at is not None:
        seconds = max(1, min(seconds, int(link.expires_at.timestamp()) - now))
    payload = orjson.dumps([link.id.hex, link.album_id.hex, now + seconds])
    return OpenedShare(link.album_id, Signer(deps.config.secret_keys).seal("share", payload), seconds)


def share_of(deps: ApiDeps, request: Request, album_id: UUID) -> ShareGrant | None:
    """What the request's cookie for this album says; None without one, or when it is forged or too old."""
    value = request.cookies.get(cookie_name(album_id))
    grant = None if value is None else _grant_of(deps, value)
    return grant if grant is not None and grant.album_id == album_id else None


def is_share_viewer(deps: ApiDeps, request: Request) -> bool:
    """Does the request carry a genuine cookie of any album? To its holder nothing else is there: 404, never 401."""
    values = [value for name, value in request.cookies.items() if name.startswith(COOKIE_PREFIX)]
    return any(_grant_of(deps, value) is not None for value in values[:_MAX_COOKIES])


def count_share_request(request: Request) -> None:
    """A request in the name of a share link; OverLimit (42901, with Retry-After) when its address asks too often."""
    _count(request, request.app.state.share_requests)


def _count(request: Request, rates: AddressRates) -> None:
    wait = rates.wait_seconds(request.client.host if request.client else "")
    if wait:
        raise OverLimit("Too many requests from this address; wait a little.", retry_after_seconds=ceil(wait))


def _grant_of(deps: ApiDeps, value: str) -> ShareGrant | None:
    payload = Signer(deps.config.secret_keys).open("share", value)
    if payload is None:
        return None
    share, album, expires_at = orjson.loads(payload)
    return ShareGrant(UUID(share), UUID(album)) if deps.clock() < expires_at else None
