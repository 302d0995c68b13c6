"""The page of a photographer, in a real Chromium: sign in, make an album, upload, steer, share."""

from __future__ import annotations

import asyncio
import hashlib
import re
from itertools import zip_longest
from pathlib import Path

import pytest
from playwright.async_api import Page, Request, expect

from tests.e2e.browser.stage import PATIENCE_SECONDS, Lingxi, live, photo, shown, until, until_shown
from tests.support.pictures import cut, heic_photo, jpeg_declaring, picture, png_declaring
from tests.support.proxy import CuttingProxy

pytestmark = pytest.mark.asyncio(loop_scope="session")

CUT = r"ERR_(CONNECTION|EMPTY_RESPONSE|SOCKET|INCOMPLETE|NETWORK)"
PIECE_BYTES = 4 * 2**20  # as the page's script cuts files
EVIL = "<img src=x onerror=alert(1)>.jpg"
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


async def test_from_signing_in_to_a_guests_screen_and_back(lingxi: Lingxi) -> None:
    async with (
        lingxi.visitor("status of 40[14]") as photographer,
        lingxi.visitor("status of 40[14]") as guest,
    ):
        page = await photographer.page()
        await page.goto(f"{lingxi.up.url}/albums")
        await page.get_by_label("Token").fill("lx_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("not valid here")
        await page.get_by_label("Token").fill(lingxi.up.token)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/albums")  # where one wanted to be, also after a mistake

        await page.get_by_label("Name of a new album").fill("<b>Lin & Ada</b>")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/albums/*-*")
        await expect(page.get_by_role("heading", level=1)).to_have_text("<b>Lin & Ada</b>")
        await live(page)
        await page.locator("#choose-files").set_input_files(
            [{"name": EVIL, "mimeType": "image/jpeg", "buffer": photo(1)}]
        )
        await expect(page.locator("#count")).to_have_text("1 photo published")
        await expect(page.get_by_role("link", name=EVIL)).to_be_visible()

        await page.get_by_role("button", name="Share …").click()
        await page.get_by_label("The link is good").select_option("for a week")
        await page.get_by_role("button", name="Make a link").click()
        await expect(page.get_by_label("The new link")).to_have_value(
            re.compile(f"^{lingxi.up.url}/s/.{{43}}$")
        )
        link = await page.get_by_label("The new link").input_value()
        await page.get_by_role("button", name="Close").click()

        other = await guest.page()
        await other.goto(link)
        await other.wait_for_url("**/a/*")
        await live(other)
        await expect(other.locator("#wall img.shown")).to_have_count(1)
        assert EVIL not in await other.content()

        await other.locator("#wall a").click()
        await expect(other.get_by_role("link", name="Original")).to_be_hidden()
        await other.keyboard.press("Escape")
        await page.get_by_role("button", name="Share …").click()
        await page.get_by_label("Guests may also download the original files").check()
        await page.get_by_role("button", name="Close").click()
        await expect(other.locator("#album[data-originals=true]")).to_have_count(1)
        await other.locator("#wall a").click()
        async with other.expect_download() as download:
            await other.get_by_role("link", name="Original").click()
        assert (await (await download.value).path()).read_bytes() == photo(1)
        await other.keyboard.press("Escape")

        await page.get_by_role("button", name="Rename …").click()
        await page.get_by_label("Name", exact=True).fill("The wedding")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("The wedding")
        await expect(other.get_by_role("heading", level=1)).to_have_text("The wedding")

        await page.get_by_role("button", name=f"Hide {EVIL}").click()
        await expect(other.locator("#wall img")).to_have_count(0)
        await expect(page.locator("#wall img.shown")).to_have_count(1)  # still there for its photographer
        await page.get_by_role("button", name=f"Show {EVIL}").click()
        await expect(other.locator("#wall img.shown")).to_have_count(1)

        await page.get_by_role("button", name="Share …").click()
        await page.get_by_role("button", name="Revoke").click()
        await expect(page.get_by_text("There is no link now")).to_be_visible()
        await expect(other.get_by_role("heading", name="This album is closed")).to_be_visible()
        await page.get_by_role("button", name="Close").click()

        await page.get_by_role("button", name="Delete …").click()
        await page.get_by_role("alertdialog").get_by_role("button", name="Delete album").click()
        await page.wait_for_url("**/albums")
        await expect(page.get_by_text("The wedding")).to_have_count(0)


async def test_a_sign_in_link_signs_one_browser_in_once(lingxi: Lingxi) -> None:
    made = await lingxi.ask("POST", "/session/links")
    async with lingxi.visitor() as photographer:
        page = await photographer.page()
        await page.goto(lingxi.up.url + made["url"])
        assert page.url == f"{lingxi.up.url}/login", "the secret is out of the address at once"
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/albums")
        assert await page.evaluate("document.cookie") == ""
        assert {(one["httpOnly"], one["sameSite"]) for one in await photographer.context.cookies()} == {
            (True, "Strict")
        }
    token_id = (await lingxi.ask("GET", "/tokens"))["tokens"][0]["id"]
    link = (await asyncio.to_thread(lingxi.up.run, "token", "link", token_id)).stdout.strip()
    assert link.startswith(f"{lingxi.up.url}/login#")
    for address, opens in ((lingxi.up.url + made["url"], False), (link, True), (link, False)):
        async with lingxi.visitor("status of 401") as other:
            page = await other.page()
            await page.goto(address)
            await page.get_by_role("button", name="Sign in").click()
            if opens:
                await page.wait_for_url("**/albums")
            else:
                await expect(page.get_by_role("alert")).to_contain_text("used already")


async def test_an_upload_through_a_cut_connection_resumes(lingxi: Lingxi, tmp_path: Path) -> None:
    original = picture("jpeg", 4_400, 2_900)
    assert len(original) > 5_500_000
    (tmp_path / "large.jpg").write_bytes(original)
    album = await lingxi.album("Cut upload")
    offsets: list[int] = []

    def note(request: Request) -> None:
        if request.method == "PATCH":
            offsets.append(int(request.headers["upload-offset"]))

    with CuttingProxy.to(lingxi.up.url) as proxy:
        async with lingxi.visitor(CUT) as photographer:
            page = await photographer.page()
            await lingxi.sign_in(page, album.path, base=proxy.url(lingxi.up.url))
            await live(page)
            page.on("request", note)
            proxy.refuse_after_sent(5_000_000)  # the first piece is through, and the second is not
            await page.locator("#choose-files").set_input_files(tmp_path / "large.jpg")
            await expect(page.locator("#uploads")).to_contain_text(
                "The connection was lost. The upload goes on by itself"
            )
            proxy.forward()
            await expect(page.locator("#uploads")).to_contain_text("1 of 1 file uploaded.")
            await expect(page.locator("#count")).to_have_text("1 photo published")
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    assert offsets[-1] >= PIECE_BYTES, "it went on from where it was"
    assert offsets.count(0) == 1, "and did not begin anew"
    (stored,) = await album.photos()
    assert stored["sha256"] == hashlib.sha256(original).hexdigest()


async def test_lost_and_paused_uploads_wait_and_go_on(lingxi: Lingxi) -> None:
    album = await lingxi.album("Paused")
    with CuttingProxy.to(lingxi.up.url) as proxy:
        async with lingxi.visitor(CUT, "ERR_ABORTED") as photographer:
            page = await photographer.page()
            await lingxi.sign_in(page, album.path, base=proxy.url(lingxi.up.url))
            await live(page)
            proxy.stall()
            files = [
                {"name": f"{number}.jpg", "mimeType": "image/jpeg", "buffer": photo(number)}
                for number in range(6)
            ]
            await page.locator("#choose-files").set_input_files(files)
            proxy.refuse()
            await expect(page.locator("#uploads")).to_contain_text(
                "The connection was lost. The upload goes on by itself"
            )
            await page.get_by_role("button", name="Pause").click()
            await expect(page.locator("#uploads [data-part=title]")).to_have_text("Paused")
            proxy.forward()
            await page.evaluate("dispatchEvent(new Event('online'))")
            assert await album.photos() == []
            await page.get_by_role("button", name="Resume").click()
            await expect(page.locator("#uploads")).to_contain_text("6 of 6 files uploaded.")

            async def all_shown() -> bool:
                return await shown(page) == await album.published() and len(await shown(page)) == 6

            await until(all_shown)


async def test_each_failure_is_one_plain_sentence(lingxi: Lingxi) -> None:
    album = await lingxi.album("Failures", photo(1))
    files = {
        "good.jpg": photo(2),
        "again.jpg": photo(1),
        "text.jpg": b"This is a text, whatever its name says.\n",
        "empty.jpg": b"",
        "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>\n',
        "cut.jpg": cut(picture("jpeg", 800, 600)),
        ".DS_Store": b"not even shown",
    }
    async with lingxi.visitor("status of 4(15|22)") as photographer:
        page = await photographer.page()
        await lingxi.sign_in(page, album.path)
        await page.locator("#choose-files").set_input_files(
            [
                {"name": name, "mimeType": "application/octet-stream", "buffer": data}
                for name, data in files.items()
            ]
        )
        panel = page.locator("#uploads")
        await expect(panel.locator("[data-part=title]")).to_have_text("Done")
        await expect(panel.locator("[data-part=sum]")).to_have_text(
            "3 of 6 files uploaded, one was in the album already, 3 could not be taken."
        )
        for name, sentence in {
            "again.jpg": "This photo is in the album already; nothing was added twice.",
            "text.jpg": r"The file is of no accepted type \(JPEG, .*\)\.",
            "empty.jpg": r"The file is empty\.",
            "drawing.svg": r"The file is an SVG drawing or another XML document\.",
        }.items():
            row = panel.get_by_role("listitem").filter(has_text=name)
            await expect(row.locator(".words")).to_have_text(re.compile(sentence))
        failure = page.locator("#failed").get_by_role("listitem")
        await expect(failure.locator(".file")).to_have_text("cut.jpg")
        await expect(failure.locator(".words")).to_have_text(
            "A part of this photo is missing, as after a copy that broke off. Copy it from the camera again."
        )
        await until_shown(page, await album.published())
        await failure.get_by_role("button", name="Remove").click()
        await page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
        await expect(page.locator("#failures")).to_be_hidden()
        await expect(page.locator("#count")).to_have_text("2 photos published")


async def test_twenty_good_photos_and_five_hostile_files_come_in_one_form(lingxi: Lingxi) -> None:
    """Each good one is published in the order of the album, each other one is explained, and no process ends for it."""
    starts = lingxi.starts()
    assert starts >= 1
    kinds = [picture(kind, 640, 480) for kind in ("png", "webp", "avif", "tiff", "gif")] + [
        heic_photo(640, 480)
    ]
    taken = {f"taken {day}.jpg": photo(day, taken=f"2026:05:{day:02} 10:00:00") for day in range(14, 0, -1)}
    hostile = {
        "bomb.png": (png_declaring(100_000, 100_000), "too_many_pixels"),
        "bomb.jpg": (jpeg_declaring(60_000, 60_000, progressive=True), "too_many_pixels"),
        "cut.jpg": (cut(picture("jpeg", 800, 600)), "truncated_image"),
        "text.jpg": (b"1 1\n0\n", "unsupported_type"),
        "drawing.jpg": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "unsupported_type"),
    }
    good = taken | {f"now {number}.jpg": data for number, data in enumerate(kinds)}
    bad = {name: data for name, (data, _) in hostile.items()}
    files = dict(pair for pairs in zip_longest(good.items(), bad.items()) for pair in pairs if pair)
    album = await lingxi.album("Twenty-five")
    outcomes = await album.upload(*files.values(), names=files)
    explained = {one["fileName"]: one["error"] for one in outcomes if one["status"] == "refused"}

    async def done() -> bool:
        return all(one["processingState"] != "uploaded" for one in await album.photos())

    await until(done)
    photos = await album.photos()
    explained |= {one["fileName"]: one["error"] for one in photos if one["error"]}
    assert {name: error["code"] for name, error in explained.items()} == {
        name: code for name, (_, code) in hostile.items()
    }
    assert all(error["message"].endswith(".") and error["advice"] for error in explained.values())
    published = [one["fileName"] for one in photos if one["visibility"] == "published"]
    assert published == [*reversed(taken), *(name for name in good if name not in taken)]
    assert lingxi.starts() == starts


async def test_a_folder_is_dropped_with_all_that_is_in_it(lingxi: Lingxi, tmp_path: Path) -> None:
    album = await lingxi.album("Folder")
    for number, name in enumerate(("a/1.jpg", "a/b/10.jpg", "a/b/9.jpg", "a/.hidden.jpg"), 1):
        (tmp_path / "shoot" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shoot" / name).write_bytes(photo(number))
    async with lingxi.visitor() as photographer:
        page = await photographer.page()
        await lingxi.sign_in(page, album.path)
        session = await page.context.new_cdp_session(page)
        data = {"items": [], "files": [str(tmp_path / "shoot")], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            await session.send("Input.dispatchDragEvent", {"type": kind, "x": 600, "y": 500, "data": data})
        await expect(page.locator("#count")).to_have_text("3 photos published")
        names = [one["fileName"] for one in sorted(await album.photos(), key=lambda one: one["uploadNumber"])]
        assert sorted(names) == ["1.jpg", "10.jpg", "9.jpg"]


async def test_the_way_of_a_photo_is_drawn_and_it_can_be_recalled(lingxi: Lingxi) -> None:
    album = await lingxi.album("Waterfall", photo(1), photo(2))
    async with lingxi.visitor() as photographer:
        page = await photographer.page()
        await lingxi.sign_in(page, album.path)
        await live(page)
        ids = await album.published()
        await page.locator(f'#wall li[data-id="{ids[0]}"] a').click()
        chart = page.get_by_role("table", name="From the shutter to the first viewer")
        for stage in ("Upload", "Waiting for a worker", "Decode", "Make pictures", "Publish", "In all"):
            await expect(chart.get_by_role("rowheader", name=stage)).to_be_visible()
        assert await chart.locator("svg rect").count() >= 6
        await _recall(page)
        await expect(page.locator("#large .said")).to_contain_text("taken back")
        await page.keyboard.press("Escape")
        await until_shown(page, ids[1:])
        assert [one["visibility"] for one in await album.photos()] == ["recalled", "published"]
        await page.locator("#choose-files").set_input_files(
            [{"name": "once more.jpg", "mimeType": "image/jpeg", "buffer": photo(1)}]
        )
        await expect(page.locator("#uploads").get_by_role("listitem").locator(".words")).to_have_text(
            "This photo was recalled from this album, which is for good: it is not shown again."
        )
        await expect(page.locator("#uploads [data-part=sum]")).to_have_text(
            "0 of 1 file uploaded, 1 could not be taken."
        )


async def test_a_viewers_token_shows_and_changes_nothing(lingxi: Lingxi) -> None:
    album = await lingxi.album("For viewers", photo(1))
    made = await lingxi.ask("POST", "/tokens", json={"name": "viewer", "role": "viewer"})
    async with lingxi.visitor() as viewer:
        page = await viewer.page()
        await page.goto(lingxi.up.url + album.path)
        await page.get_by_label("Token").fill(made["token"])
        await page.get_by_role("button", name="Sign in").click()
        await live(page)
        await until_shown(page, await album.published())
        for name in ("Share …", "Rename …", "Delete …", "Hide photo 1.jpg"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)


async def _recall(page: Page) -> None:
    await page.get_by_role("button", name="Recall …").click()
    question = page.get_by_role("alertdialog")
    await expect(question).to_contain_text("This cannot be undone.")
    await question.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Recall …").click()
    await question.get_by_role("button", name="Recall").click()
