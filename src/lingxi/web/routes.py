"""The routes of the pages, and the headers that every page carries.

The pages show what the API shows: a workspace sees its own tasks, anything else is 404. Changes go through the API
itself, from the page's script, under the same cookie.
"""

from __future__ import annotations

import re
from datetime import datetime
from urllib.parse import parse_qs, urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from lingxi.domain.ids import parse_uuid
from lingxi.services.read_tasks import TaskFilter, get_task, list_items, list_tasks
from lingxi.web import render
from lingxi.web.album_routes import STEERING_ROLES, album_routes, set_cookie, sign_in_first
from lingxi.web.answers import HEADERS, again_from_here, as_page, comes_from_elsewhere, html, see_other
from lingxi.web.assets import static_files, static_version
from lingxi.web.deps import PagesDeps

TASKS_A_PAGE = 50
ITEMS_A_PAGE = 500
MAX_FORM_BYTES = 4096
_PAGES = re.compile(r"/(albums|tasks)(/[0-9a-f-]{36})?")


def pages_routes(deps: PagesDeps) -> list[BaseRoute]:
    """Routes for the application's router; they are no part of the OpenAPI document."""
    pages = Pages(deps)
    return [
        Route("/", pages.tasks, methods=["GET"]),
        Route("/login", pages.link, methods=["GET"]),
        Route("/login", pages.sign_in, methods=["POST"]),
        Route("/logout", pages.sign_out, methods=["POST"]),
        Route("/tasks/{taskId}", pages.task, methods=["GET"]),
        Route("/static/{version}/{name}", pages.static, methods=["GET"]),
        *album_routes(deps),
    ]


class Pages:
    """One method a page."""

    def __init__(self, deps: PagesDeps) -> None:
        self._deps = deps

    @as_page
    async def tasks(self, request: Request) -> Response:
        """The list of tasks; the sign-in form for whoever is not known."""
        who = await self._deps.who(request)
        if who is None and comes_from_elsewhere(request):
            return again_from_here(request)
        if who is None:
            return html(render.login_page(go_on=_go_on(request.query_params.get("next", ""))))
        async with self._deps.pool.acquire(timeout=5) as connection:
            found = await list_tasks(
                connection, who.workspace_id, TaskFilter(), after=_after(request), limit=TASKS_A_PAGE + 1
            )
        older = None
        if len(found) > TASKS_A_PAGE:
            last = found[TASKS_A_PAGE - 1]
            older = "/?" + urlencode({"before": last.created_at.isoformat(), "id": str(last.id)})
        return html(render.list_page(found[:TASKS_A_PAGE], older))

    @as_page
    async def task(self, request: Request) -> Response:
        """One task. A task of another workspace is as unknown as one that does not exist."""
        who = await self._deps.who(request)
        if who is None:
            return sign_in_first(request)
        task_id = parse_uuid(request.path_params["taskId"])
        async with self._deps.pool.acquire(timeout=5) as connection:
            task = await get_task(connection, who.workspace_id, task_id) if task_id else None
            if task is None:
                return html(render.not_found_page(), 404)
            items = await list_items(connection, task.id, states=None, after_position=0, limit=ITEMS_A_PAGE)
        may_steer = who.role in STEERING_ROLES
        more_items = task.counts.total - len(items)
        return html(render.task_page(task, items, may_steer=may_steer, more_items=more_items))

    async def link(self, request: Request) -> Response:
        """Takes a sign-in link, whose secret only the page's script sees. By a button: what looks links over uses none up."""
        return html(render.link_page())

    @as_page
    async def sign_in(self, request: Request) -> Response:
        """Exchanges a token, or a sign-in link's secret, for a session cookie."""
        if not self._deps.same_origin(request):
            return html(render.login_page("Sign in from this page itself."), 403)
        fields = await _form(request)
        go_on = _go_on(fields.get("next", ""))
        if "link" in fields:
            cookie = await self._deps.follow_link(fields["link"])
            problem = "This sign-in link was used already, or its time is over."
        else:
            secret = fields.get("token", "").strip()
            cookie = await self._deps.sign_in(secret) if secret else None
            problem = "This token is not valid here, or it is an operator's."
        if cookie is None:
            return html(render.login_page(problem, go_on), 401)
        answer = see_other(go_on or "/")
        set_cookie(answer, cookie, request)
        return answer

    @as_page
    async def sign_out(self, request: Request) -> Response:
        """Forgets the cookie."""
        if not self._deps.same_origin(request):
            return html(render.login_page("Sign out from this page itself."), 403)
        answer = see_other("/")
        answer.delete_cookie(self._deps.session_cookie_name, httponly=True, samesite="strict")
        return answer

    async def static(self, request: Request) -> Response:
        """A file of the pages; its address changes with its content."""
        file = static_files().get(request.path_params["name"])
        if file is None:
            return PlainTextResponse("not found\n", 404, HEADERS)
        current = request.path_params["version"] == static_version()
        kept = {"Cache-Control": "public, max-age=31536000, immutable"} if current else {}
        return Response(file.body, headers=HEADERS | kept, media_type=file.content_type)


def _after(request: Request) -> tuple[datetime, UUID] | None:
    """Where the page before ended; nonsense in the address is the first page."""
    task_id = parse_uuid(request.query_params.get("id", ""))
    try:
        before = datetime.fromisoformat(request.query_params.get("before", ""))
    except ValueError:
        return None
    return (before, task_id) if task_id and before.tzinfo else None


def _go_on(address: str) -> str:
    """The page to show after signing in: one of ours, or none."""
    return address if _PAGES.fullmatch(address) else ""


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small url-encoded form; empty when the form is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            return {}
    return {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
