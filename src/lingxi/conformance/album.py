"""An album of the server under test, over HTTP alone: photos that are made here, share links, and the feed for both audiences."""

import asyncio
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode
from uuid import uuid4

from lingxi.conformance.album_model import AlbumModel
from lingxi.conformance.connection import StreamConnection
from lingxi.conformance.rule import Bench, NotTried
from lingxi.conformance.server import API, Json, Refused, Server

PUBLISHED_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Guest:
    """A share link that was opened: what its holder's browser sends."""

    share_id: str
    headers: Mapping[str, str]


class Album:
    """Made for one rule. A guest's `headers` stand where a member's bearer token else would."""

    def __init__(self, server: Server, album_id: str) -> None:
        self.server, self.id = server, album_id

    @classmethod
    async def create(cls, bench: Bench) -> Self:
        """NotTried where the server has no albums."""
        server = bench.server
        answer = await server.http.post(
            f"{server.url}{API}/albums",
            json={"name": "conformance"},
            headers=server.authorization,
            timeout=20,
        )
        if answer.status_code in (404, 405, 501):
            raise NotTried("the server has no albums")
        if answer.status_code >= 400:
            raise Refused(f"POST /albums was answered {answer.status_code}: {answer.text[:300]}")
        return cls(server, answer.json()["id"])

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    async def upload(self, count: int = 1) -> list[str]:
        """New photos in one form; their ids. They are published when a worker has done its part."""
        files = [("file", (f"{index}.png", picture(), "image/png")) for index in range(count)]
        answer = await self.server.call("POST", f"/albums/{self.id}/photos", files=files)
        return [one["photo"]["id"] for one in answer["files"]]

    async def upload_damaged(self) -> str:
        """A photo that no worker can publish, once that is known."""
        files = [("file", ("damaged.png", picture(damaged=True), "image/png"))]
        photo_id: str = (await self.call("POST", "/photos", files=files))["files"][0]["photo"]["id"]
        async with asyncio.timeout(PUBLISHED_SECONDS):
            while (await self.call("GET", f"/photos/{photo_id}"))["processingState"] == "uploaded":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return photo_id

    async def publish(self, count: int = 1) -> list[str]:
        """New photos, once they are published."""
        ids = await self.upload(count)
        await self.published(ids)
        return ids

    async def published(self, ids: Sequence[str]) -> None:
        """Wait for a worker."""
        try:
            async with asyncio.timeout(PUBLISHED_SECONDS):
                for one in ids:
                    while (await self.call("GET", f"/photos/{one}"))["visibility"] == "unpublished":  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
        except TimeoutError:
            raise Refused(
                f"a photo was not published within {PUBLISHED_SECONDS} s: is a worker with QUEUE=photo running?"
            ) from None

    async def steer(self, photo_id: str, verb: str) -> None:
        """`hide`, `show`, `recall` or `delete`."""
        if verb == "delete":
            await self.call("DELETE", f"/photos/{photo_id}")
        else:
            await self.call("POST", f"/photos/{photo_id}/{verb}")

    async def rename(self) -> Json:
        """A new name, one that no other change has given; answers the album with the number of this change as `cursor`."""
        album: Json = await self.server.call(
            "PATCH", f"/albums/{self.id}", json={"name": f"named {uuid4().hex}"}
        )
        return album

    async def delete(self) -> None:
        await self.server.call("DELETE", f"/albums/{self.id}")

    async def share(self) -> Guest:
        """A share link, opened as a browser opens it."""
        link = await self.call("POST", "/shares", json={"lifetimeSeconds": None})
        answer = await self.server.http.get(f"{self.server.url}{link['url']}", timeout=20)
        cookies = [f"{name}={value}" for name, value in answer.cookies.items()]
        if not cookies:
            raise Refused(f"opening a share link was answered {answer.status_code}, without a cookie")
        self.server.http.cookies.clear()
        return Guest(link["id"], {"Cookie": "; ".join(cookies)})

    async def revoke(self, guest: Guest) -> None:
        await self.call("DELETE", f"/shares/{guest.share_id}")

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────

    async def call(self, method: str, path: str, **how: Any) -> Any:
        return await self.server.call(method, f"/albums/{self.id}{path}", **how)

    async def asked(self, guest: Guest | None = None) -> Json:
        """The album, as it is shown to a member or a guest."""
        album: Json = await self.server.call("GET", f"/albums/{self.id}", **_as(guest))
        return album

    async def listed(self, guest: Guest | None = None) -> list[Json]:
        """All photos that a member or a guest is shown, page by page."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            query = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
            page = await self.call("GET", "/photos", params=query, **_as(guest))
            found += page["photos"]
            if not (cursor := page.get("nextCursor")):
                return found

    # ── watching ─────────────────────────────────────────────────────────────────────────────────────────

    def events_url(self, **query: str | None) -> str:
        given = {name: value for name, value in query.items() if value is not None}
        return f"{self.server.url}{API}/albums/{self.id}/events" + (f"?{urlencode(given)}" if given else "")

    async def events(
        self,
        last_event_id: str | None = None,
        *,
        guest: Guest | None = None,
        query_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> StreamConnection:
        """Open the feed: `last_event_id` goes into the header, `query_id` and a stream token into the address."""
        known = self.server.authorization if guest is None else guest.headers
        return await self.server.events(
            self.id,
            last_event_id,
            url=self.events_url(lastEventId=query_id, token=token),
            headers=dict(known if headers is None else headers),
        )

    async def catch_up(
        self, last_event_id: str | None, model: AlbumModel, guest: Guest | None = None
    ) -> list[int]:
        """Connect, and read until a change made now has come: all before it was told. Answers the ids, in order."""
        async with await self.events(last_event_id, guest=guest) as stream:
            return await self.read_up(stream, model)

    async def read_up(
        self, stream: StreamConnection, model: AlbumModel, timeout_seconds: float = 30
    ) -> list[int]:
        """The same on an open stream."""
        if not stream.is_stream:
            raise Refused(
                f"the feed was answered {stream.status}: {stream.body.decode('utf-8', 'replace')[:300]}"
            )
        last = (await self.rename())["cursor"]
        numbers = [0]
        async with asyncio.timeout(timeout_seconds):
            while numbers[-1] < last:  # a later change of the album may stand for this one
                frame = await stream.next(timeout_seconds)
                if frame is None:
                    raise Refused("the feed ended by itself")
                model.apply(frame)
                numbers += [frame.number] if frame.id is not None else []
        return numbers[1:]


def _as(guest: Guest | None) -> dict[str, Any]:
    return {} if guest is None else {"headers": dict(guest.headers)}


def picture(*, damaged: bool = False) -> bytes:
    """A small PNG that nobody has made before; a `damaged` one begins like one, and cannot be decoded."""
    width, height = 48, 32
    colour = uuid4().bytes[:6]
    rows = b"".join(b"\0" + (colour[:3] if y % 8 < 4 else colour[3:]) * width for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = uuid4().bytes * 20 if damaged else zlib.compress(rows)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
