"""The answers of the pages: their headers, and pages instead of problem documents where something is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lingxi.db.session import is_unavailable
from lingxi.domain.errors import LingxiError
from lingxi.observability.logging import get_logger
from lingxi.web import render

_log = get_logger("web.pages")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # under no-referrer browsers send `Origin: null` with our own forms
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "no-store",
}
SHARE_HEADERS = HEADERS | {"Referrer-Policy": "no-referrer"}

Handler = Callable[[Any, Request], Awaitable[Response]]


def html(text: str, status: int = 200, *, shared: bool = False) -> Response:
    """A page; `shared`: one that guests see, which tells no other site where it was."""
    return HTMLResponse(text, status, SHARE_HEADERS if shared else HEADERS)


def see_other(address: str) -> Response:
    """Go there by GET."""
    return RedirectResponse(address, 303, HEADERS)


def comes_from_elsewhere(request: Request) -> bool:
    """Did a link on another site lead here? Browsers then withhold our SameSite=Strict cookies, once."""
    return request.headers.get("sec-fetch-site") == "cross-site"


def again_from_here(request: Request, *, shared: bool = False) -> Response:
    """A page that goes to its own address: that request comes from our own site and carries the cookies."""
    return html(render.opening_page(request.url.path, signed_in=False), shared=shared)


def as_page(handler: Handler) -> Handler:
    """What the handler refuses, or cannot do now, becomes a page with the sentence that says so."""

    @wraps(handler)
    async def answer(self: Any, request: Request) -> Response:
        try:
            return await handler(self, request)
        except LingxiError as refusal:
            page = html(render.refused_page(refusal.title, refusal.detail), refusal.status)
            if refusal.retry_after_seconds is not None:
                page.headers["Retry-After"] = str(refusal.retry_after_seconds)
            return page
        except Exception as error:
            if not is_unavailable(error):
                raise
            _log.warning("postgresql_unavailable", error=repr(error))
            sentence = "This page cannot be shown at the moment. Nothing is lost: try again in a minute."
            return html(render.refused_page("Back in a moment", sentence), 503)

    return answer
