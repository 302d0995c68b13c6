"""The pages over a real database: who sees what, what is escaped, and what a browser may load and send."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from lingxi.db.session import Pool
from lingxi.domain.wire import Task
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.workspaces import create_workspace
from lingxi.web.assets import static_file
from lingxi.web.routes import (
    HEADERS,
    MAX_FORM_BYTES,
    TASKS_A_PAGE,
    PagesDeps,
    Session,
    SignedIn,
    pages_routes,
)

COOKIE = "session"


@dataclass
class Site:
    """The pages with two workspaces; the cookie's value is `<which>:<role>`."""

    client: httpx.AsyncClient
    pool: Pool
    ours: UUID
    theirs: UUID

    async def submit(self, workspace: UUID, *refs: str) -> Task:
        new = NewTask(workspace, "demo:drill", 1, list(refs), ["{}"] * len(refs))
        async with self.pool.acquire() as connection, connection.transaction():
            return await submit_task(connection, new)

    async def get(self, path: str, who: str | None = "ours:editor") -> httpx.Response:
        headers = {"Cookie": f"{COOKIE}={who}"} if who else {}
        return await self.client.get(path, headers=headers)


@asynccontextmanager
async def open_site(pool: Pool) -> AsyncIterator[Site]:
    async with pool.acquire() as connection:
        made = [await create_workspace(connection, name) for name in ("ours", "theirs")]
    ours, theirs = (workspace.id for workspace in made if workspace)
    ids = {"ours": ours, "theirs": theirs}

    async def sign_in(secret: str) -> Session | None:
        return Session("ours:editor", 60) if secret == "lx_right" else None

    async def who(request: Request) -> SignedIn | None:
        which, _, role = request.cookies.get(COOKIE, "").partition(":")
        return SignedIn(ids[which], role) if which else None

    def same_origin(request: Request) -> bool:
        return request.headers.get("origin") == "http://here"

    app = Starlette(routes=pages_routes(PagesDeps(pool, COOKIE, sign_in, who, same_origin)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        yield Site(client, pool, ours, theirs)


async def test_without_a_session_there_is_only_the_form(pool: Pool) -> None:
    async with open_site(pool) as site:
        task = await site.submit(site.ours, "a")
        form = await site.get("/", None)
        assert form.status_code == 200
        assert 'type="password"' in form.text
        assert str(task.id) not in form.text
        refused = await site.get(f"/tasks/{task.id}", None)
        assert (refused.status_code, refused.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    ("token", "origin", "status"),
    [
        ("lx_right", "http://here", 303),
        ("lx_wrong", "http://here", 401),
        ("", "http://here", 401),
        ("lx_right", "http://elsewhere", 403),
        ("lx_right" + " " * MAX_FORM_BYTES, "http://here", 401),
    ],
)
async def test_signing_in(pool: Pool, token: str, origin: str, status: int) -> None:
    async with open_site(pool) as site:
        answer = await site.client.post("/login", data={"token": token}, headers={"Origin": origin})
        assert answer.status_code == status
        cookie = answer.headers.get("set-cookie", "")
        assert (status == 303) == ("HttpOnly" in cookie and "SameSite=strict" in cookie)
        assert ('role="alert"' in answer.text) == (status != 303)


async def test_signing_out_needs_our_origin_too(pool: Pool) -> None:
    async with open_site(pool) as site:
        assert (await site.client.post("/logout")).status_code == 403
        answer = await site.client.post("/logout", headers={"Origin": "http://here"})
        assert "Max-Age=0" in answer.headers["set-cookie"]


async def test_another_workspaces_task_is_like_no_task(pool: Pool) -> None:
    async with open_site(pool) as site:
        theirs = await site.submit(site.theirs, "secret")
        assert str(theirs.id) not in (await site.get("/")).text
        paths = [f"/tasks/{theirs.id}", "/tasks/0198c0de-0000-7000-8000-000000000000", "/tasks/nonsense"]
        answers = [await site.get(path) for path in paths]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
        assert len({answer.content for answer in answers}) == 1
        assert "secret" in (await site.get(f"/tasks/{theirs.id}", "theirs:viewer")).text


async def test_text_from_outside_is_escaped(pool: Pool) -> None:
    async with open_site(pool) as site:
        task = await site.submit(site.ours, '<script>alert("x")</script>', "$status & co")
        text = (await site.get(f"/tasks/{task.id}")).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(&quot;x&quot;)" in text
        assert "$status &amp; co" in text


@pytest.mark.parametrize(("role", "hidden"), [("viewer", True), ("editor", False), ("admin", False)])
async def test_buttons_are_for_those_who_may(pool: Pool, role: str, hidden: bool) -> None:
    async with open_site(pool) as site:
        task = await site.submit(site.ours, "a")
        text = (await site.get(f"/tasks/{task.id}", f"ours:{role}")).text
        assert ('<button id="cancel" hidden>' in text) is hidden
        assert '<button id="retry" hidden>' in text


async def test_pages_of_tasks_follow_each_other(pool: Pool) -> None:
    async with open_site(pool) as site:
        made = [await site.submit(site.ours, "a") for _ in range(TASKS_A_PAGE + 2)]
        first = await site.get("/")
        (older,) = re.findall(r'rel="next" href="([^"]+)"', first.text)
        second = await site.get(older.replace("&amp;", "&"))
        shown = [re.findall(r'href="/tasks/([^"]+)"', page.text) for page in (first, second)]
        assert [*shown[0], *shown[1]] == [str(task.id) for task in reversed(made)]
        assert 'rel="next"' not in second.text
        assert (await site.get("/?before=nonsense&id=1")).text.count("/tasks/") == TASKS_A_PAGE


async def test_every_page_carries_the_headers_and_nothing_foreign(pool: Pool) -> None:
    async with open_site(pool) as site:
        task = await site.submit(site.ours, "a")
        for path in ("/", f"/tasks/{task.id}", "/tasks/nonsense"):
            page = await site.get(path)
            assert {name: page.headers[name] for name in HEADERS} == HEADERS
            assert "unsafe-inline" not in page.headers["content-security-policy"]
            assert not re.search(r"(src|href|action)=.(https?:)?//", page.text)
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src=)", page.text)
            for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
                file = await site.client.get(address)
                assert file.status_code == 200
                assert "immutable" in file.headers["cache-control"]
        assert (await site.client.get("/static/..%2froutes.py")).status_code == 404


def test_the_script_and_the_style_load_nothing_foreign() -> None:
    for name in ("app.js", "app.css"):
        file = static_file(name)
        assert file is not None
        assert b"http://" not in file.body.replace(b"http://www.w3.org", b"")
        assert b"https://" not in file.body
