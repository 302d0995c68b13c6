"""The demo's last act before the proof: the photographs as a live album, seen by a guest who holds its link."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingxi.cli.demo_story import Story
from lingxi.cli.output import Output
from lingxi.cli.publishing import Became, Publishing

if TYPE_CHECKING:
    import httpx

    from lingxi.client import Client

ALBUM = "Demo"
LAST_FRAMES_SECONDS = 10.0


@dataclass
class Guest:
    """Somebody with the link, and what the album's feed told: how often each photo's version."""

    http: httpx.AsyncClient
    album_id: str
    frames: Counter[tuple[str, int]] = field(default_factory=Counter)
    thumbs: dict[str, str] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @classmethod
    @asynccontextmanager
    async def open(cls, album_url: str, album_id: str) -> AsyncIterator[Guest]:
        """Opens the link as a browser does, which is given a cookie for it."""
        import httpx

        root = album_url.partition("/s/")[0]
        async with httpx.AsyncClient(base_url=root, trust_env=False) as http:
            (await http.get(album_url)).raise_for_status()
            yield cls(http, album_id)

    async def watch(self) -> None:
        """The feed, until cancelled."""
        from lingxi.client import PhotoChanged
        from lingxi.client.album_model import AlbumFrame, parse_album_frame
        from lingxi.client.watch import Follower

        def open_stream(resume_from: str | None) -> Any:
            headers = {"Last-Event-ID": resume_from} if resume_from else {}
            path = f"/api/v1/albums/{self.album_id}/events"
            return self.http.stream("GET", path, headers=headers, timeout=45.0)

        follower: Follower[AlbumFrame] = Follower(
            open_stream, parse_album_frame, last_event_id="0", patience_seconds=60.0
        )
        async for frame in follower.frames():
            if isinstance(frame, PhotoChanged):
                photo = frame.photo
                self.frames[photo.id, photo.entity_version] += 1
                self.thumbs[photo.id] = next(one.path for one in photo.variants if one.kind == "thumb")
                async with self._news:
                    self._news.notify_all()

    async def until_seen(self, photo_ids: set[str]) -> None:
        """Waits for their frames, LAST_FRAMES_SECONDS at most."""
        try:
            async with asyncio.timeout(LAST_FRAMES_SECONDS), self._news:
                await self._news.wait_for(lambda: photo_ids <= self.thumbs.keys())
        except TimeoutError:
            pass

    async def pictures(self) -> int:
        """How many thumbs can be fetched, as a browser fetches them."""
        answers = [await self.http.get(f"/api/v1/{path}") for path in self.thumbs.values()]
        return sum(answer.headers.get("content-type") == "image/jpeg" for answer in answers)


async def live_album(client: Client, output: Output, story: Story, photos: dict[Path, str | None]) -> None:
    """Publishes them while the guest watches, and compares what each side knows."""
    album = await client.albums.create(ALBUM)
    link = await client.albums.share(album.id)
    story.album_url = f"{client.url}{link.url}"
    publishing = Publishing(client, album, lambda outcome: None)
    async with Guest.open(story.album_url, album.id) as guest:
        watching = [asyncio.create_task(guest.watch()), asyncio.create_task(publishing.follow())]

        async def publish() -> None:
            await publishing.send(photos)
            await publishing.until_settled(lambda: None)

        try:
            publishes = asyncio.create_task(publish())
            done, _ = await asyncio.wait({publishes, *watching}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            shown = {
                str(one.photo_id)
                for one in publishing.outcomes
                if one.became in (Became.PUBLISHED, Became.THERE)
            }
            await guest.until_seen(shown)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        fetched = await guest.pictures()
    _judge(output, story, publishing, photos, guest, shown, fetched)
    versions = {photo.entity_version async for photo in client.albums.photos(album.id) if photo.id in shown}
    story.expect(versions <= {1}, "a photo was published more than once")


def _judge(
    output: Output,
    story: Story,
    publishing: Publishing,
    photos: dict[Path, str | None],
    guest: Guest,
    shown: set[str],
    fetched: int,
) -> None:
    bad = [one for one in publishing.outcomes if one.became in (Became.REFUSED, Became.FAILED)]
    story.published, story.explained = len(shown), sum(bool(one.sentence) for one in bad)
    story.viewer_frames = guest.frames.total()
    output.say(f"  {len(shown)} published; the guest saw {story.viewer_frames} frames and {fetched} pictures")
    for code, number in Counter(one.code for one in bad).most_common():
        example = next(one for one in bad if one.code == code)
        output.say(f"  {number} × {code}: {example.sentence} (e.g. {example.path.name})")
    for outcome in publishing.outcomes:
        expected = photos[outcome.path]
        good = outcome.became in (Became.PUBLISHED, Became.THERE)
        story.expect(expected is None or good == (expected == "ok"), f"{outcome.path.name}: {outcome.became}")
    story.expect(story.explained == len(bad), "a photo was refused without a reason")
    story.expect(guest.thumbs.keys() == shown, "the guest saw other photos than were published")
    story.expect(max(guest.frames.values(), default=1) == 1, "the guest was told of a photo twice")
    story.expect(fetched == len(shown), "a picture of the album could not be fetched")
