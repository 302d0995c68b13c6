"""The pages of albums over a real database: who sees which, what is escaped, and how a share link is exchanged."""

from __future__ import annotations

import json
import re
from html import unescape
from uuid import UUID

import pytest

from lingxi.db.session import Pool
from lingxi.domain.photos import Album
from lingxi.services.albums import create_album
from lingxi.services.steer_photo import hide_photo
from lingxi.web.album_routes import ALBUMS_A_PAGE, FIRST_PHOTOS
from lingxi.web.answers import SHARE_HEADERS
from lingxi.web.deps import Cookie, Look, Opened
from tests.integration.web.site import Site, open_site

EVIL = '<img src=x onerror="alert(1)">'
CROSS_SITE = {"sec_fetch_site": "cross-site"}


async def _album(site: Site, name: str = "An album", workspace: UUID | None = None) -> Album:
    async with site.pool.acquire() as connection, connection.transaction():
        return await create_album(connection, workspace or site.ours, name)


async def _guest(site: Site, album: Album, *, member: bool = False) -> str:
    site.looks["guest"] = Look(album.id, album.workspace_id, member)
    return "guest"


def _told(text: str) -> list[dict[str, object]]:
    """The photos that the page hands to its script."""
    (attribute,) = re.findall(r'data-photos="([^"]*)"', text)
    photos = json.loads(unescape(attribute))
    assert isinstance(photos, list)
    return photos


async def test_names_and_file_names_are_escaped(pool: Pool) -> None:
    async with open_site(pool) as site:
        album = await _album(site, EVIL)
        await site.publish(album, 1, file_name=EVIL)
        guest = await _guest(site, album)
        pages = [
            await site.get("/albums"),
            await site.get(f"/albums/{album.id}"),
            await site.get(f"/a/{album.id}", None, share=guest),
        ]
        for page in pages:
            assert page.status_code == 200
            assert "<img src=x" not in page.text
            assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;" in page.text
        assert _told(pages[1].text)[0]["fileName"] == EVIL


async def test_another_workspaces_album_is_like_no_album(pool: Pool) -> None:
    async with open_site(pool) as site:
        theirs = await _album(site, "secret", site.theirs)
        assert "secret" not in (await site.get("/albums")).text
        paths = [f"/albums/{theirs.id}", "/albums/0198c0de-0000-7000-8000-000000000000", "/albums/nonsense"]
        answers = [await site.get(path) for path in paths]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
        assert len({answer.content for answer in answers}) == 1
        assert (await site.get(f"/albums/{theirs.id}", "theirs:viewer")).status_code == 200


@pytest.mark.parametrize(("role", "steers"), [("viewer", False), ("editor", True), ("admin", True)])
async def test_tools_are_for_those_who_may(pool: Pool, role: str, steers: bool) -> None:
    async with open_site(pool) as site:
        album = await _album(site)
        page = (await site.get(f"/albums/{album.id}", f"ours:{role}")).text
        for tool in ('id="choose-files"', 'id="share"', 'id="rename"', 'id="delete-album"'):
            assert (tool in page) is steers
        assert ('id="new-album"' in (await site.get("/albums", f"ours:{role}")).text) is steers


async def test_guests_are_told_of_published_photos_only_and_no_file_name(pool: Pool) -> None:
    async with open_site(pool) as site:
        album = await _album(site)
        shown = await site.publish(album, 1, file_name="shown.jpg")
        hidden = await site.publish(album, 2, file_name="hidden.jpg")
        async with pool.acquire() as connection, connection.transaction():
            await hide_photo(connection, album.id, hidden)
        guest = await _guest(site, album)
        page = (await site.get(f"/a/{album.id}", None, share=guest)).text
        assert [photo["id"] for photo in _told(page)] == [str(shown)]
        assert "1 photo<" in page
        assert "shown.jpg" not in page
        assert "hidden.jpg" not in page
        assert str(hidden) not in page
        members = _told((await site.get(f"/albums/{album.id}")).text)
        assert {photo["fileName"] for photo in members} == {"shown.jpg", "hidden.jpg"}


async def test_a_share_link_is_exchanged_by_a_page_that_goes_on_by_itself(pool: Pool) -> None:
    async with open_site(pool) as site:
        album = await _album(site)
        site.shares["right"] = Opened(album.id, Cookie("share", "guest", 60))
        answer = await site.get("/s/right", None, **CROSS_SITE)
        assert answer.status_code == 200, "the cookie of a redirect would be withheld"
        assert f'content="0;url=/a/{album.id}"' in answer.text
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert {name: answer.headers[name] for name in SHARE_HEADERS} == SHARE_HEADERS
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-robots-tag"] == "noindex"
        assert "right" not in answer.text
        unknown = await site.get("/s/wrong", None)
        assert unknown.status_code == 404
        assert "set-cookie" not in unknown.headers


async def test_without_the_cookie_an_album_is_closed(pool: Pool) -> None:
    async with open_site(pool) as site:
        album = await _album(site, "the name")
        closed = await site.get(f"/a/{album.id}", None)
        assert closed.status_code == 404
        assert "the name" not in closed.text
        assert closed.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/albums", "/albums/{album}", "/a/{album}"])
async def test_a_link_on_another_site_comes_again_from_here(pool: Pool, path: str) -> None:
    """Browsers withhold SameSite=Strict cookies from the first request, and only from that."""
    async with open_site(pool) as site:
        path = path.format(album=(await _album(site)).id)
        first = await site.get(path, None, **CROSS_SITE)
        assert first.status_code == 200
        assert f'content="0;url={path}"' in first.text
        second = await site.get(path, None, sec_fetch_site="same-origin")
        assert "http-equiv" not in second.text


async def test_pages_of_albums_follow_each_other(pool: Pool) -> None:
    async with open_site(pool) as site:
        made = [await _album(site, f"album {number}") for number in range(ALBUMS_A_PAGE + 1)]
        first = await site.get("/albums")
        (older,) = re.findall(r'rel="next" href="([^"]+)"', first.text)
        second = await site.get(unescape(older))
        shown = [re.findall(r'href="/albums/([^"]+)"', page.text) for page in (first, second)]
        assert [*shown[0], *shown[1]] == [str(album.id) for album in reversed(made)]


async def test_the_first_photos_are_in_the_document_and_the_rest_is_announced(pool: Pool) -> None:
    async with open_site(pool) as site:
        album = await _album(site)
        made = [await site.publish(album, number) for number in range(1, FIRST_PHOTOS + 2)]
        page = (await site.get(f"/albums/{album.id}")).text
        assert [photo["id"] for photo in _told(page)] == [str(one) for one in made[:FIRST_PHOTOS]]
        assert 'data-next="more"' in page
        assert page.count('<li class="tile"><a href="/api/v1/albums/') == FIRST_PHOTOS  # without scripts, too
        assert (
            f'src="/api/v1/albums/{album.id}/photos/{made[0]}/variants/' in (await site.get("/albums")).text
        )


async def test_pages_carry_no_inline_script_or_style(pool: Pool) -> None:
    async with open_site(pool) as site:
        album = await _album(site)
        await site.publish(album, 1)
        guest = await _guest(site, album)
        for page in (
            await site.get("/albums"),
            await site.get(f"/albums/{album.id}"),
            await site.get(f"/a/{album.id}", None, share=guest),
        ):
            assert "unsafe-inline" not in page.headers["content-security-policy"]
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src=)", page.text)
            assert not re.search(r"(src|href|action)=.(https?:)?//", page.text)
