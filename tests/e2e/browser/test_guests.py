"""The page of a guest, in a real Chromium: photos come as they are published, each once, and go when they are taken back."""

from __future__ import annotations

import asyncio
import json
import re

import asyncpg
import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser.stage import PATIENCE_SECONDS, PHONE, Lingxi, live, photo, shown, until, until_shown
from tests.support.proxy import CuttingProxy

pytestmark = pytest.mark.asyncio(loop_scope="session")

CUT = r"ERR_(CONNECTION|EMPTY_RESPONSE|SOCKET|INCOMPLETE|INTERNET_DISCONNECTED|NETWORK)"
TALL = {"width": 1280, "height": 6000}
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


# Of the title, and of what is behind it, from 0 to 255.
_BRIGHTNESS = """() => {
  const mean = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0) / 3;
  const of = (element) => getComputedStyle(element);
  return [mean(of(document.querySelector("h1")).color), mean(of(document.body).backgroundColor)];
}"""


async def test_fifty_photos_appear_while_the_page_is_open_each_once(lingxi: Lingxi) -> None:
    album = await lingxi.album()
    async with lingxi.visitor(viewport=TALL) as guest:
        page = await guest.page()
        await (await album.share()).open(page)
        await expect(page.get_by_text("The first photo is on its way")).to_be_visible()
        await asyncio.gather(
            *(album.upload(*(photo(25 * half + number) for number in range(25))) for half in (0, 1))
        )
        await expect(page.locator("#count")).to_have_text("50 photos")
        await until_shown(page, await album.published())
        assert len(await shown(page)) == 50
        await expect(page.locator("#voice")).to_contain_text("50 photos in all")  # told to screen readers
        await expect(page.locator("#wall img.shown")).to_have_count(50)  # and each picture came


async def test_a_cut_connection_loses_nothing(lingxi: Lingxi) -> None:
    album = await lingxi.album("Cut", *(photo(number) for number in range(4)))
    with CuttingProxy.to(lingxi.up.url) as proxy:
        async with lingxi.visitor(CUT, viewport=TALL) as guest:
            page = await guest.page()
            await (await album.share()).open(page, base=proxy.url(lingxi.up.url))
            before = await album.published()
            await until_shown(page, before)
            proxy.refuse()
            await expect(page.locator("#live")).to_have_text("Connecting again …")
            await album.publish(*(photo(number) for number in range(10, 15)))
            await album.steer(before[0], "recall")
            await album.steer(before[1], "hide")
            await lingxi.ask("PATCH", album.path, json={"name": "Renamed meanwhile"})
            assert await shown(page) == before
            proxy.forward()
            await until_shown(page, await album.published())
            await live(page)
            await expect(page.locator("h1")).to_have_text("Renamed meanwhile")


async def test_after_a_sleep_the_page_goes_on_at_once(lingxi: Lingxi) -> None:
    """The network goes and comes back with the lid; the page hears of it and does not wait for its next try."""
    album = await lingxi.album("Asleep", photo(1))
    async with lingxi.visitor(CUT, viewport=TALL) as guest:
        page = await guest.page()
        await (await album.share()).open(page)
        await guest.context.set_offline(True)
        await page.evaluate("dispatchEvent(new Event('online'))")  # whatever is still open is given up
        await expect(page.locator("#live")).to_have_text("Connecting again …")
        await album.publish(photo(2))
        await guest.context.set_offline(False)
        await until_shown(page, await album.published())


async def test_a_number_that_the_server_never_gave_makes_the_page_read_anew(lingxi: Lingxi) -> None:
    """As after a restored backup: the stream says `reset`, and the page shows what is there, and no more."""
    album = await lingxi.album("Restored", photo(1), photo(2))
    async with lingxi.visitor(viewport=TALL) as guest:
        page = await guest.page()

        async def from_the_future(route: object) -> None:
            answer = await route.fetch()  # type: ignore[attr-defined]
            text = (await answer.text()).replace("data-cursor=", 'data-cursor="999999" data-was=')
            await route.fulfill(response=answer, body=text)  # type: ignore[attr-defined]

        await page.route("**/a/*", from_the_future)
        await (await album.share()).open(page)
        ids = await album.published()
        await album.steer(ids[0], "recall")
        await until_shown(page, ids[1:])
        await album.publish(photo(3))
        await until_shown(page, await album.published())


async def test_a_recalled_photo_is_gone_from_the_wall_and_from_the_large_view(lingxi: Lingxi) -> None:
    album = await lingxi.album("Recalled", *(photo(number) for number in range(3)))
    async with lingxi.visitor() as guest:
        page = await guest.page()
        await (await album.share()).open(page)
        first, second, third = await album.published()
        await page.locator(f'#wall li[data-id="{second}"] a').click()
        picture = page.locator("#large .stage img")
        await expect(picture).to_have_attribute("src", _of(second))
        await album.steer(second, "recall")
        await expect(page.locator("#large .said")).to_have_text(
            "The photo that you were looking at was taken back."
        )
        await expect(picture).to_have_attribute("src", _of(third))
        assert await shown(page) == [first, third]
        await album.steer(third, "hide")
        await expect(picture).to_have_attribute("src", _of(first))
        await album.steer(first, "hide")
        await expect(page.locator("#large")).to_be_hidden()
        await expect(page.get_by_text("The first photo is on its way")).to_be_visible()
        await album.steer(first, "show")
        await until_shown(page, [first])


async def test_a_revoked_link_ends_the_page_kindly(lingxi: Lingxi) -> None:
    album = await lingxi.album("Ended", photo(1))
    async with lingxi.visitor("status of 40[14]") as guest:
        page = await guest.page()
        share = await album.share()
        await share.open(page)
        await share.revoke()
        await expect(page.get_by_role("heading", name="This album is closed")).to_be_visible()
        await expect(page.locator("#wall img")).to_have_count(0)
        await page.reload()
        await expect(page.get_by_role("heading", name="This link opens nothing")).to_be_visible()
        assert "Ended" not in await page.content()


async def test_keys_lead_through_the_photos_and_back(lingxi: Lingxi) -> None:
    album = await lingxi.album("Keys", *(photo(number) for number in range(5)))
    async with lingxi.visitor() as guest:
        page = await guest.page()
        await (await album.share()).open(page)
        ids = await album.published()
        await until_shown(page, ids)
        await expect(page.get_by_role("list", name="Photos").get_by_role("listitem")).to_have_count(5)
        await page.keyboard.press("Tab")  # "skip to content"
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Photo")
        await expect(dialog).to_be_visible()
        for key, number in (
            ("ArrowRight", 2),
            ("End", 5),
            ("ArrowRight", 5),
            ("ArrowLeft", 4),
            ("Home", 1),
            ("ArrowLeft", 1),
        ):
            await page.keyboard.press(key)
            await expect(dialog.get_by_role("status").first).to_have_text(f"{number} of 5")
            await expect(dialog.locator(".stage img")).to_have_attribute("src", _of(ids[number - 1]))
        for _ in range(8):  # nothing behind the dialog can be reached
            await page.keyboard.press("Tab")
            assert await page.evaluate("!document.activeElement.closest('#wall, .cover')")
        await page.keyboard.press("End")
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await page.wait_for_url(f"**/a/{album.id}")
        assert await _focused(page) == ids[4]  # where one was looking last


async def test_swipes_and_back_on_a_phone(lingxi: Lingxi) -> None:
    album = await lingxi.album("Phone", *(photo(number) for number in range(3)))
    async with lingxi.visitor(viewport=PHONE, has_touch=True, is_mobile=True) as guest:
        page = await guest.page()
        await (await album.share()).open(page)
        ids = await album.published()
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        await page.locator(f'#wall li[data-id="{ids[0]}"] a').tap()
        picture = page.locator("#large .stage img")
        for start, end, number in ((300, 120, 2), (300, 120, 3), (120, 300, 2)):
            await _swipe(page, start, end)
            await expect(picture).to_have_attribute("src", _of(ids[number - 1]))
        await page.go_back()
        await expect(page.locator("#large")).to_be_hidden()
        assert page.url.endswith(f"/a/{album.id}")


async def test_in_the_dark_the_page_is_dark_and_its_text_light(lingxi: Lingxi) -> None:
    album = await lingxi.album("Night", photo(1))
    for scheme in ("light", "dark"):
        async with lingxi.visitor(color_scheme=scheme) as guest:
            page = await guest.page()
            await (await album.share()).open(page)
            await album.published()
            text, behind = await page.evaluate(_BRIGHTNESS)
            assert (behind < 60 and text > 180) if scheme == "dark" else (behind > 220 and text < 80)


async def test_what_comes_above_does_not_move_what_one_looks_at(lingxi: Lingxi) -> None:
    taken = [photo(number, 120, 80, taken=f"2026:05:02 10:{number:02d}:00") for number in range(40)]
    album = await lingxi.album("Place", *taken)
    async with lingxi.visitor(viewport=PHONE) as guest:
        page = await guest.page()
        await (await album.share()).open(page)
        await expect(page.locator("#count")).to_have_text("40 photos")
        await page.evaluate("scrollTo(0, 1500)")
        watched = await page.wait_for_function(
            """() => [...document.querySelectorAll("#wall li")].find((tile) => {
                 const top = tile.getBoundingClientRect().top; return scrollY > 1000 && top > 0 && top < 300; })?.dataset.id"""
        )
        seen = page.locator(f'#wall li[data-id="{await watched.json_value()}"]')
        before = await seen.bounding_box()
        earlier = [photo(50 + number, 120, 80, taken=f"2026:05:01 09:{number:02d}:00") for number in range(6)]
        await album.publish(*earlier)
        pill = page.get_by_role("button", name="6 new photos: go there")
        await expect(pill).to_have_text("6 new photos ↑")
        after = await seen.bounding_box()
        assert before is not None
        assert after is not None
        assert abs(after["y"] - before["y"]) <= 260, "it may move within its row's height, and no more"
        await pill.click()
        await expect(pill).to_be_hidden()
        assert await page.evaluate("scrollY") < 400


async def test_a_link_clicked_on_another_site_opens_the_album(lingxi: Lingxi) -> None:
    """Browsers withhold SameSite=Strict cookies from a visit that begins elsewhere, and from its redirects."""
    album = await lingxi.album("From a mail", photo(1))
    share = await album.share()
    async with lingxi.visitor() as guest:
        page = await guest.page()
        for address in (share.path, f"/a/{album.id}"):
            await page.goto(f'data:text/html,<a href="{lingxi.up.url}{address}">the album</a>')
            await page.get_by_role("link", name="the album").click()
            await page.wait_for_url(f"**/a/{album.id}")
            await live(page)
        cookies = await guest.context.cookies()
        assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")]
        assert await page.evaluate("document.cookie") == ""


@pytest.mark.slow
async def test_five_thousand_photos_are_no_burden(lingxi: Lingxi) -> None:
    album = await lingxi.album("Five thousand", photo(1))
    await _multiply(lingxi, album.id, 5_000)
    async with lingxi.visitor(viewport=PHONE) as guest:
        page = await guest.page()
        await (await album.share()).open(page)
        await expect(page.locator("#count")).to_have_text("5,000 photos")
        await expect(page.locator('#wall li[aria-setsize="5000"]').first).to_be_visible()  # all are read
        assert len(await shown(page)) < 100
        await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")

        async def at_the_end() -> bool:
            last = page.locator('#wall li[aria-posinset="5000"]')
            return await last.count() == 1 and await last.is_visible()

        await until(at_the_end)
        assert len(await shown(page)) < 100
        assert await page.evaluate("document.querySelectorAll('*').length") < 800
        await album.publish(photo(2))
        await expect(page.locator("#count")).to_have_text("5,001 photos")


def _of(photo_id: str) -> re.Pattern[str]:
    return re.compile(f"/photos/{photo_id}/variants/")


async def _focused(page: Page) -> str | None:
    found: str | None = await page.evaluate("document.activeElement.closest('li')?.dataset.id")
    return found


async def _swipe(page: Page, start: int, end: int) -> None:
    """One finger across the photo, by the browser's own protocol."""
    session = await page.context.new_cdp_session(page)
    for kind, x in (("touchStart", start), ("touchMove", (start + end) // 2), ("touchMove", end)):
        await session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": 400}]})
    await session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    await session.detach()


async def _multiply(lingxi: Lingxi, album_id: str, total: int) -> None:
    """So many photos in an album, by rows that all show the picture of its only one."""
    running = json.loads((lingxi.up.data_dir / "running.json").read_text())
    connection = await asyncpg.connect(running["database_url"])
    try:
        await connection.execute(
            """
            with more as (
              insert into photos
              select (jsonb_populate_record(one, jsonb_build_object(
                'id', gen_random_uuid(), 'upload_number', n, 'storage_key', 'copy-' || one.album_id || '-' || n,
                'sha256', '\\x' || encode(sha256(n::text::bytea), 'hex'), 'created_at', one.created_at + n * interval '1 second',
                'sort_at', one.sort_at + n * interval '1 second'))).*
              from photos one, generate_series(2, $2::int) as n where one.album_id = $1 returning id)
            insert into photo_variants
            select more.id, v.kind, v.generation, v.storage_key, v.file_name, v.width, v.height, v.size_bytes,
                   v.sha256, v.content_type
              from more, photos one join photo_variants v on v.photo_id = one.id where one.album_id = $1
            """,
            album_id,
            total,
        )
        await connection.execute("update albums set last_upload = $2 where id = $1", album_id, total)
    finally:
        await connection.close()
