"""Several tabs share one stream; the page of a task is live, too."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser.stage import PATIENCE_SECONDS, Lingxi, live, photo, shown, until, until_shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABS = 6
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


async def test_six_tabs_share_one_stream_and_the_next_takes_over(lingxi: Lingxi) -> None:
    album = await lingxi.album("Tabs", photo(1))
    share = await album.share()

    async def streams(number: int) -> None:
        async def so_many() -> bool:
            return await lingxi.open_streams() == number

        await until(so_many, f"{number} open streams")

    await streams(0)
    async with lingxi.visitor() as guest:
        tabs = [await guest.page() for _ in range(TABS)]
        for tab in tabs:
            await share.open(tab)
        assert await lingxi.open_streams() == 1
        await album.publish(photo(2))
        for tab in tabs:
            await until_shown(tab, await album.published())
        await tabs[0].close()  # it came first, so it is the one that listens
        await album.publish(photo(3))
        ids = await album.published()
        await album.steer(ids[0], "recall")
        for tab in tabs[1:]:
            await until_shown(tab, ids[1:])
        assert await lingxi.open_streams() == 1
        late = await guest.page()
        await late.goto(f"{lingxi.up.url}/a/{album.id}")
        await live(late)
        await until_shown(late, ids[1:])
        assert await lingxi.open_streams() == 1
        await share.revoke()
        for tab in [*tabs[1:], late]:
            await expect(tab.get_by_role("heading", name="This album is closed")).to_be_visible()
        guest.watched.expected.append("status of 40[14]")
    await streams(0)


async def test_a_tab_that_missed_what_the_listening_one_heard_is_brought_up_to_date(lingxi: Lingxi) -> None:
    """Its page was made before the others heard of a photo, and it asks only afterwards."""
    album = await lingxi.album("Late", photo(1))
    async with lingxi.visitor(
        "status of 404"
    ) as guest:  # a picture that was hidden before the late page asked for it
        first = await guest.page()
        await (await album.share()).open(first)
        late = await guest.page()
        held: list[object] = []
        await late.route("**/share.js", lambda route: held.append(route))
        await late.goto(f"{lingxi.up.url}/a/{album.id}", wait_until="commit")

        async def is_held() -> bool:
            return bool(held)

        await until(is_held)
        await album.publish(photo(2), photo(3))
        ids = await album.published()
        await album.steer(ids[0], "hide")
        await until_shown(first, ids[1:])
        for route in held:
            await route.continue_()  # type: ignore[attr-defined]
        await until_shown(late, ids[1:])
        assert await lingxi.open_streams() == 1


async def test_failed_items_of_a_task_are_retried_from_its_page(lingxi: Lingxi) -> None:
    items = [{"ref": "fails", "input": {"fail": "permanent"}}, {"ref": "good", "input": {}}]
    task = await lingxi.ask("POST", "/media-tasks", json={"type": "demo:drill", "items": items})
    async with lingxi.visitor() as engineer:
        page = await engineer.page()
        await lingxi.sign_in(page, f"/tasks/{task['id']}")
        await expect(page.locator("#status")).to_have_text("partially failed")
        await page.get_by_role("button", name="Retry").click()
        await expect(page.locator("#round")).to_have_text("2")
        await expect(page.locator("#status")).to_have_text("partially failed")
        assert await shown(page) == []


async def test_a_task_is_followed_steered_and_retried(lingxi: Lingxi) -> None:
    body = {
        "type": "demo:drill",
        "items": [
            {"ref": "<b>quick</b>", "input": {}},
            {"ref": "fails", "input": {"fail": "permanent"}},
            *({"ref": f"long {number}", "input": {"durationMs": 60_000}} for number in range(4)),
            {"ref": "waits", "input": {}},
        ],
    }
    task = await lingxi.ask("POST", "/media-tasks", json=body)
    async with lingxi.visitor() as engineer:
        page = await engineer.page()
        await lingxi.sign_in(page, f"/tasks/{task['id']}")
        row = _row(page, "<b>quick</b>")
        await expect(row.locator(".chip")).to_have_text("succeeded")
        await expect(_row(page, "fails").locator(".error")).to_contain_text("drill_failed: ")
        await expect(page.locator("#live")).to_have_text("live")
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator("#status")).to_have_text("cancelling")


def _row(page: Page, name: str) -> object:
    return page.locator("#items tr").filter(has_text=name)
