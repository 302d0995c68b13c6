"""The pages over a real database: who sees what, what is escaped, and what a browser may load and send."""

from __future__ import annotations

import re

import pytest

from lingxi.db.session import Pool
from lingxi.web.answers import HEADERS
from lingxi.web.assets import static_files
from lingxi.web.routes import MAX_FORM_BYTES, TASKS_A_PAGE
from tests.integration.web.site import open_site


async def test_without_a_session_there_is_only_the_form(pool: Pool) -> None:
    async with open_site(pool) as site:
        task = await site.submit(site.ours, "a")
        form = await site.get("/", None)
        assert form.status_code == 200
        assert 'type="password"' in form.text
        assert str(task.id) not in form.text
        refused = await site.get(f"/tasks/{task.id}", None)
        assert refused.status_code == 303
        assert refused.headers["location"].startswith("/?next=")


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


@pytest.mark.parametrize(
    ("link", "origin", "status"), [("once", "here", 303), ("used", "here", 401), ("once", "else", 403)]
)
async def test_a_sign_in_link_is_used_by_a_button_on_our_own_page(
    pool: Pool, link: str, origin: str, status: int
) -> None:
    async with open_site(pool) as site:
        page = await site.get("/login", None)
        assert 'name="link"' in page.text
        answer = await site.client.post(
            "/login", data={"link": link, "next": "/albums"}, headers={"Origin": f"http://{origin}"}
        )
        assert answer.status_code == status
        assert ("set-cookie" in answer.headers) == (status == 303)


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
        for path in ("/", "/login", f"/tasks/{task.id}", "/tasks/nonsense"):
            page = await site.get(path)
            assert {name: page.headers[name] for name in HEADERS} == HEADERS
            assert "unsafe-inline" not in page.headers["content-security-policy"]
            assert not re.search(r"(src|href|action)=.(https?:)?//", page.text)
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src=)", page.text)
            for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
                file = await site.client.get(address)
                assert file.status_code == 200
                assert "immutable" in file.headers["cache-control"]
        assert (await site.client.get("/static/x/..%2froutes.py")).status_code == 404


async def test_a_static_file_of_another_version_is_not_kept(pool: Pool) -> None:
    async with open_site(pool) as site:
        old = await site.client.get("/static/000000000000/app.js")
        assert old.status_code == 200
        assert old.headers["cache-control"] == "no-store"


def test_scripts_and_styles_load_nothing_foreign_and_import_only_what_is_there() -> None:
    for name, file in static_files().items():
        text = file.body.decode()
        assert "http://" not in text.replace("http://www.w3.org", ""), name
        assert "https://" not in text, name
        for imported in re.findall(r"""from "([^"]+)";""", text):
            assert imported.removeprefix("./") in static_files(), f"{name} imports {imported}"
        if name.endswith(".js"):
            assert not re.search(r"innerHTML\s*=[^=]|insertAdjacentHTML|document\.write|\beval\(", text), name


@pytest.mark.parametrize("wanted", ["/albums", "/albums/0198c0de-0000-7000-8000-000000000000", "/tasks/x"])
async def test_after_signing_in_one_is_where_one_wanted_to_be(pool: Pool, wanted: str) -> None:
    async with open_site(pool) as site:
        form = await site.get((await site.get(wanted, None)).headers["location"], None)
        (go_on,) = re.findall(r'name="next" value="([^"]*)"', form.text)
        ours = {"Origin": "http://here"}
        answer = await site.client.post("/login", data={"token": "lx_right", "next": go_on}, headers=ours)
        assert answer.headers["location"] == ("/" if wanted == "/tasks/x" else wanted)


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example", "https://evil.example", "/\\evil.example", "/albums/../x"]
)
async def test_signing_in_leads_nowhere_else(pool: Pool, elsewhere: str) -> None:
    async with open_site(pool) as site:
        ours = {"Origin": "http://here"}
        answer = await site.client.post("/login", data={"token": "lx_right", "next": elsewhere}, headers=ours)
        assert answer.headers["location"] == "/"
