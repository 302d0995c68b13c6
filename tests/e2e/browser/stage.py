"""A running Lingxi, and browsers in front of it whose every error is kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pyvips
from playwright.async_api import Browser, BrowserContext, Page

from tests.e2e.conftest import Up
from tests.support.pictures import exif
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 30.0  # a fact that takes a second here may take many on a busy machine
LARGE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}

# Watches the wall from inside: any moment at which a photo is there twice is kept.
_WITNESS = """
window.twice = []; window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
new MutationObserver(() => {
  const ids = [...document.querySelectorAll("#wall li[data-id]")].map((tile) => tile.dataset.id);
  if (new Set(ids).size !== ids.length) window.twice.push(ids);
}).observe(document, { childList: true, subtree: true });
"""


def photo(number: int, width: int = 90, height: int = 60, *, taken: str | None = None) -> bytes:
    """A small JPEG of its own colour. `taken`: its capture time, as `2026:05:01 10:00:00` in UTC."""
    colour = [37 * number % 256, 101 * number % 256, 59 * number % 256]
    image = (pyvips.Image.black(width, height) + colour).cast("uchar").copy(interpretation="srgb")
    image = image.draw_rect([255, 255, 255], number % width, number // width, 8, 8, fill=True)
    if taken is not None:
        image = image.copy()
        image.set_type(pyvips.GValue.blob_type, "exif-data", exif(details={36867: taken, 36881: "+00:00"}))
    data: bytes = image.jpegsave_buffer(Q=90)
    return data


@dataclass
class Watched:
    """What a browser said was wrong, and what of it a test expects: patterns of the console's lines."""

    errors: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda line: (
                self.errors.append(f"{page.url}: {line.text}") if line.type in ("error", "warning") else None
            ),
        )

    def unexpected(self) -> list[str]:
        return [line for line in self.errors if not any(re.search(one, line) for one in self.expected)]


@dataclass
class Visitor:
    """A browser of its own, with its own cookies."""

    context: BrowserContext
    watched: Watched

    async def page(self) -> Page:
        return await self.context.new_page()


class Lingxi:
    """The API of the running system, as a photographer's program uses it; and visitors with browsers."""

    def __init__(self, up: Up, browser: Browser) -> None:
        self.up = up
        self.browser = browser
        headers = {"Authorization": f"Bearer {up.token}"}
        self.http = httpx.AsyncClient(base_url=f"{up.url}/api/v1", headers=headers, timeout=60)

    async def ask(self, method: str, path: str, **given: Any) -> Any:
        answer = await self.http.request(method, path, **given)
        assert answer.status_code < 400, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    async def album(self, name: str = "A day in May", *photos: bytes) -> Album:
        made = Album(self, (await self.ask("POST", "/albums", json={"name": name}))["id"])
        if photos:
            await made.publish(*photos)
        return made

    def starts(self) -> int:
        """How many workers were started, and decoders after one that had died."""
        logs = [log.read_text() for log in (self.up.data_dir / "logs").glob("*.log")]
        return sum(len(re.findall(r'"worker_started"|"decoder_ended".*"died"', log)) for log in logs)

    async def open_streams(self) -> int:
        """How many streams of albums are open."""
        text = (await self.http.get("/metrics")).text
        found = re.findall(r'^lingxi_stream_connections\{kind="(?:album|share)"\} (\S+)', text, re.MULTILINE)
        return int(sum(map(float, found)))

    @asynccontextmanager
    async def visitor(self, *expected: str, **options: Any) -> AsyncIterator[Visitor]:
        """A fresh browser; at the end nothing may have gone wrong in it but what was `expected`."""
        watched = Watched(expected=list(expected))
        context = await self.browser.new_context(**{"viewport": LARGE, **options})
        await context.add_init_script(_WITNESS)
        context.on("page", watched.listen)
        try:
            yield Visitor(context, watched)
            for page in context.pages:
                for what in ("violations", "twice"):
                    found = await page.evaluate(f"window.{what} ?? []")
                    assert found == [], f"{what} on {page.url}: {found}"
            assert watched.unexpected() == [], watched.unexpected()
        finally:
            await context.close()

    async def sign_in(self, page: Page, path: str = "/albums", *, base: str | None = None) -> None:
        """Through the form, as people do."""
        await page.goto((base or self.up.url) + path)
        await page.get_by_label("Token").fill(self.up.token)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(f"**{path}")


class Album:
    """An album of the running system."""

    def __init__(self, lingxi: Lingxi, album_id: str) -> None:
        self.lingxi = lingxi
        self.id = album_id
        self.path = f"/albums/{album_id}"

    async def upload(self, *photos: bytes, names: Iterable[str] = ()) -> list[dict[str, Any]]:
        """One form; the outcome of each file."""
        named = list(names) or [f"photo {number}.jpg" for number in range(1, len(photos) + 1)]
        files = [("file", (name, data)) for name, data in zip(named, photos, strict=True)]
        answer = await self.lingxi.ask("POST", f"{self.path}/photos", files=files)
        outcomes: list[dict[str, Any]] = answer["files"]
        return outcomes

    async def publish(self, *photos: bytes, names: Iterable[str] = ()) -> list[str]:
        """Upload, and wait until guests may see them; their ids in the order given."""
        ids = [outcome["photo"]["id"] for outcome in await self.upload(*photos, names=names)]

        async def published() -> bool:
            return set(ids) <= set(await self.published())

        await wait_until(published, PATIENCE_SECONDS)
        return ids

    async def published(self) -> list[str]:
        """What guests may see, in the album's order."""
        return [one["id"] for one in await self.photos() if one["visibility"] == "published"]

    async def photos(self) -> list[dict[str, Any]]:
        answer = await self.lingxi.ask("GET", f"{self.path}/photos?limit=500")
        found: list[dict[str, Any]] = answer["photos"]
        return found

    async def steer(self, photo_id: str, verb: str) -> None:
        await self.lingxi.ask("POST", f"{self.path}/photos/{photo_id}/{verb}")

    async def share(self) -> Share:
        made = await self.lingxi.ask("POST", f"{self.path}/shares", json={"lifetimeSeconds": None})
        return Share(self, made["id"], made["url"])


@dataclass(frozen=True)
class Share:
    """A share link: `path` is what guests are sent."""

    album: Album
    id: str
    path: str

    async def revoke(self) -> None:
        await self.album.lingxi.ask("DELETE", f"{self.album.path}/shares/{self.id}")

    async def open(self, page: Page, *, base: str | None = None) -> None:
        """As a guest, until the page is live."""
        await page.goto((base or self.album.lingxi.up.url) + self.path)
        await page.wait_for_url(f"**/a/{self.album.id}")
        await live(page)


async def live(page: Page) -> None:
    """Until the page, or the tab that listens for it, has a stream."""
    await page.locator("#live[data-state=live]").wait_for(timeout=PATIENCE_SECONDS * 1000)


async def shown(page: Page) -> list[str]:
    """The photos whose tiles are there, in the order of the document."""
    ids: list[str] = await page.locator("#wall li[data-id]").evaluate_all(
        "tiles => tiles.map(tile => tile.dataset.id)"
    )
    return ids


async def until(fact: Callable[[], Awaitable[Any]], message: str = "") -> None:
    """Until the fact is true, with a wait that a busy machine keeps, too."""
    await wait_until(fact, PATIENCE_SECONDS, message)


async def until_shown(page: Page, ids: list[str]) -> None:
    """Until the wall has exactly these photos in this order."""

    async def same() -> bool:
        return await shown(page) == ids

    await until(same, f"{len(ids)} photos in their order")


async def together(*work: Awaitable[Any]) -> None:
    await asyncio.gather(*work)
