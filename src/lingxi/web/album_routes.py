"""The pages of albums: for members of the workspace under /albums, for guests under /s/{secret} and /a/{albumId}."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from lingxi.domain.errors import NotFound
from lingxi.domain.ids import parse_uuid
from lingxi.services.album_faces import album_faces
from lingxi.services.albums import count_photos, get_album, list_albums
from lingxi.services.read_photos import list_photos
from lingxi.web import album_render, render
from lingxi.web.answers import again_from_here, as_page, comes_from_elsewhere, html, see_other
from lingxi.web.deps import Cookie, PagesDeps, SignedIn

ALBUMS_A_PAGE = 48
FIRST_PHOTOS = 60
STEERING_ROLES = ("editor", "admin")
_CLOSED_TITLE = "This link opens nothing"
_CLOSED = "It may have been ended by whoever shared it, its time may be over, or a part of it is missing. Ask them for a new one."


def album_routes(deps: PagesDeps) -> list[BaseRoute]:
    """Routes for the application's router; they are no part of the OpenAPI document."""
    pages = AlbumPages(deps)
    return [
        Route("/albums", pages.albums, methods=["GET"]),
        Route("/albums/{albumId}", pages.album, methods=["GET"]),
        Route("/s/{secret}", pages.open, methods=["GET"]),
        Route("/a/{albumId}", pages.share, methods=["GET"]),
    ]


class AlbumPages:
    """One method a page."""

    def __init__(self, deps: PagesDeps) -> None:
        self._deps = deps

    @as_page
    async def albums(self, request: Request) -> Response:
        """The albums of the workspace, newest first."""
        who = await self._deps.who(request)
        if who is None:
            return sign_in_first(request)
        async with self._deps.pool.acquire(timeout=5) as connection:
            found = await list_albums(
                connection, who.workspace_id, after=_after(request), limit=ALBUMS_A_PAGE + 1
            )
            shown = found[:ALBUMS_A_PAGE]
            ids = [album.id for album in shown]
            counts = await count_photos(connection, ids)
            faces = await album_faces(connection, ids)
        older = None
        if len(found) > ALBUMS_A_PAGE:
            last = shown[-1]
            older = "/albums?" + urlencode({"before": last.created_at.isoformat(), "id": str(last.id)})
        return html(album_render.albums_page(shown, counts, faces, may_create=_may_steer(who), older=older))

    @as_page
    async def album(self, request: Request) -> Response:
        """One album for its photographer. Another workspace's is as unknown as one that does not exist."""
        who = await self._deps.who(request)
        if who is None:
            return sign_in_first(request)
        album_id = parse_uuid(request.path_params["albumId"])
        if album_id is None:
            return html(render.not_found_page(), 404)
        async with self._deps.pool.acquire(timeout=5) as connection:
            try:
                # the album's number is read before its photos: what changes meanwhile is told by the feed
                album = await get_album(connection, who.workspace_id, album_id)
            except NotFound:
                return html(render.not_found_page(), 404)
            counts = (await count_photos(connection, [album_id]))[album_id]
            photos = await list_photos(
                connection, album_id, shared_only=False, after=None, limit=FIRST_PHOTOS + 1
            )
        more = len(photos) > FIRST_PHOTOS
        return html(
            album_render.album_page(
                album, counts, photos[:FIRST_PHOTOS], more=more, may_steer=_may_steer(who)
            )
        )

    @as_page
    async def open(self, request: Request) -> Response:
        """Exchanges a share link's secret for a cookie, and goes on to the album.

        By a page and not by a redirect: a redirect after a click in a mail still comes from another site, and the browser
        would withhold the cookie that it was just given.
        """
        opened = await self._deps.open_share(request, request.path_params["secret"])
        if opened is None:
            return html(render.refused_page(_CLOSED_TITLE, _CLOSED), 404, shared=True)
        page = html(render.opening_page(f"/a/{opened.album_id}", signed_in=False), shared=True)
        set_cookie(page, opened.cookie, request)
        return page

    @as_page
    async def share(self, request: Request) -> Response:
        """An album for its guests; for a member it shows what guests see."""
        look = await self._deps.look(request, request.path_params["albumId"])
        if look is None and comes_from_elsewhere(request):
            return again_from_here(request, shared=True)
        if look is None:
            return html(render.refused_page(_CLOSED_TITLE, _CLOSED), 404, shared=True)
        async with self._deps.pool.acquire(timeout=5) as connection:
            album = await get_album(connection, look.workspace_id, look.album_id)
            counts = (await count_photos(connection, [album.id]))[album.id]
            photos = await list_photos(
                connection, album.id, shared_only=True, after=None, limit=FIRST_PHOTOS + 1
            )
        text = album_render.share_page(
            album,
            photos[:FIRST_PHOTOS],
            published=counts["published"],
            more=len(photos) > FIRST_PHOTOS,
            member=look.member,
        )
        return html(text, shared=True)


def sign_in_first(request: Request) -> Response:
    """The form; afterwards the page that was asked for."""
    if comes_from_elsewhere(request):
        return again_from_here(request)
    return see_other("/?" + urlencode({"next": request.url.path}))


def set_cookie(answer: Response, cookie: Cookie, request: Request) -> None:
    """No script reads it, and no other site's request carries it."""
    answer.set_cookie(
        cookie.name,
        cookie.value,
        max_age=cookie.max_age_seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def _may_steer(who: SignedIn) -> bool:
    return who.role in STEERING_ROLES


def _after(request: Request) -> tuple[datetime, UUID] | None:
    """Where the page before ended; nonsense in the address is the first page."""
    album_id = parse_uuid(request.query_params.get("id", ""))
    try:
        before = datetime.fromisoformat(request.query_params.get("before", ""))
    except ValueError:
        return None
    return (before, album_id) if album_id and before.tzinfo else None
