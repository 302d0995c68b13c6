"""The routes of the pages, and the headers that every page carries.

The pages show what the API shows: a workspace sees its own tasks, anything else is 404. Changes go through the API
itself, from the page's script, under the same cookie.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qs, urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from lingxi.db.session import Pool
from lingxi.domain.ids import parse_uuid
from lingxi.services.read_tasks import TaskFilter, get_task, list_items, list_tasks
from lingxi.web import render
from lingxi.web.assets import static_file

TASKS_A_PAGE = 50
ITEMS_A_PAGE = 500
MAX_FORM_BYTES = 4096
STEERING_ROLES = ("editor", "admin")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # under no-referrer browsers send `Origin: null` with our own forms
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who looks at a page."""

    workspace_id: UUID
    role: str


@dataclass(frozen=True, slots=True)
class Session:
    """A session that was opened with a token: the cookie's value and how long it is good for."""

    cookie: str
    max_age_seconds: int


@dataclass(frozen=True, slots=True)
class PagesDeps:
    """What the pages are given. `who` knows a request by its session cookie; `sign_in` takes a token's secret."""

    pool: Pool
    cookie_name: str
    sign_in: Callable[[str], Awaitable[Session | None]]
    who: Callable[[Request], Awaitable[SignedIn | None]]
    same_origin: Callable[[Request], bool]


def pages_routes(deps: PagesDeps) -> list[BaseRoute]:
    """Routes for the application's router; they are no part of the OpenAPI document."""
    pages = Pages(deps)
    return [
        Route("/", pages.tasks, methods=["GET"]),
        Route("/login", pages.sign_in, methods=["POST"]),
        Route("/logout", pages.sign_out, methods=["POST"]),
        Route("/tasks/{taskId}", pages.task, methods=["GET"]),
        Route("/static/{name}", pages.static, methods=["GET"]),
    ]


class Pages:
    """One method a page."""

    def __init__(self, deps: PagesDeps) -> None:
        self._deps = deps

    async def tasks(self, request: Request) -> Response:
        """The list of tasks; the sign-in form for whoever is not known."""
        who = await self._deps.who(request)
        if who is None:
            return _html(render.login_page())
        async with self._deps.pool.acquire(timeout=5) as connection:
            found = await list_tasks(
                connection, who.workspace_id, TaskFilter(), after=_after(request), limit=TASKS_A_PAGE + 1
            )
        older = None
        if len(found) > TASKS_A_PAGE:
            last = found[TASKS_A_PAGE - 1]
            older = "/?" + urlencode({"before": last.created_at.isoformat(), "id": str(last.id)})
        return _html(render.list_page(found[:TASKS_A_PAGE], older))

    async def task(self, request: Request) -> Response:
        """One task. A task of another workspace is as unknown as one that does not exist."""
        who = await self._deps.who(request)
        if who is None:
            return RedirectResponse("/", 303, HEADERS)
        task_id = parse_uuid(request.path_params["taskId"])
        async with self._deps.pool.acquire(timeout=5) as connection:
            task = await get_task(connection, who.workspace_id, task_id) if task_id else None
            if task is None:
                return _html(render.not_found_page(), 404)
            items = await list_items(connection, task.id, states=None, after_position=0, limit=ITEMS_A_PAGE)
        may_steer = who.role in STEERING_ROLES
        more_items = task.counts.total - len(items)
        return _html(render.task_page(task, items, may_steer=may_steer, more_items=more_items))

    async def sign_in(self, request: Request) -> Response:
        """Exchanges a token for a session cookie."""
        if not self._deps.same_origin(request):
            return _html(render.login_page("Sign in from this page itself."), 403)
        secret = await _form_field(request, "token")
        session = await self._deps.sign_in(secret.strip()) if secret else None
        if session is None:
            return _html(render.login_page("This token is not valid here, or it is an operator's."), 401)
        answer = RedirectResponse("/", 303, HEADERS)
        answer.set_cookie(
            self._deps.cookie_name,
            session.cookie,
            max_age=session.max_age_seconds,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Forgets the cookie."""
        if not self._deps.same_origin(request):
            return _html(render.login_page("Sign out from this page itself."), 403)
        answer = RedirectResponse("/", 303, HEADERS)
        answer.delete_cookie(self._deps.cookie_name, httponly=True, samesite="strict")
        return answer

    async def static(self, request: Request) -> Response:
        """A file of the pages; its address changes with its content."""
        file = static_file(request.path_params["name"])
        if file is None:
            return PlainTextResponse("not found\n", 404, HEADERS)
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(file.body, headers=HEADERS | kept, media_type=file.content_type)


def _html(text: str, status: int = 200) -> Response:
    return HTMLResponse(text, status, HEADERS)


def _after(request: Request) -> tuple[datetime, UUID] | None:
    """Where the page before ended; nonsense in the address is the first page."""
    task_id = parse_uuid(request.query_params.get("id", ""))
    try:
        before = datetime.fromisoformat(request.query_params.get("before", ""))
    except ValueError:
        return None
    return (before, task_id) if task_id and before.tzinfo else None


async def _form_field(request: Request, name: str) -> str:
    """One field of a small url-encoded form; empty when it is missing or the form is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            return ""
    return parse_qs(body.decode("latin-1")).get(name, [""])[0]
