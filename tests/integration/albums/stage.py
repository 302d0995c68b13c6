"""Albums over HTTP: members, guests with share links, photos that are published without queue, worker or decoder."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import httpx
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from lingxi.api.share_cookies import open_share
from lingxi.db.session import transaction
from lingxi.domain.photos import Photo, Variant
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.publish_photo import Made, publish_photo
from tests.integration.api.harness import Api, World
from tests.support.photos import chunks

THUMB = b"\xff\xd8 a small picture " * 20
BROWSE = bytes(range(256)) * 1000
EXCHANGE = "/test/exchange/"
NO_SUCH_THING = {
    "type": "https://lingxi.dev/problems/40401",
    "title": "There is no such thing here",
    "status": 404,
    "code": 40401,
    "detail": "There is nothing with this id or at this address.",
}
_number = count(1)


async def exchange(request: Request) -> Response:
    """What a page does with a secret; the pages themselves are tried elsewhere."""
    opened = await open_share(request, request.path_params["secret"])
    if opened is None:
        return PlainTextResponse("no such link", 404)
    answer = PlainTextResponse(str(opened.album_id))
    opened.set_on(answer, secure=False)
    return answer


@dataclass
class Stage:
    """Our editor's client at a served API."""

    api: Api
    world: World
    editor: httpx.AsyncClient
    guests: list[httpx.AsyncClient] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def open(cls, api: Api, world: World) -> AsyncIterator[Stage]:
        api.app.router.routes.append(Route(EXCHANGE + "{secret}", exchange))
        async with api.client(world.ours.editor) as editor:
            stage = cls(api, world, editor)
            yield stage
            for guest in stage.guests:
                await guest.aclose()

    # ── doing ────────────────────────────────────────────────────────────────────────────────────────────
    async def album(self, **given: Any) -> str:
        """A new album's id."""
        answer = await self.editor.post("albums", json={"name": "Wedding", **given})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def upload(self, album: str, name: str = "IMG_1.jpg", data: bytes | None = None) -> str:
        """A photo's id; its original is stored, and nothing has processed it."""
        data = b"original %d" % next(_number) if data is None else data
        stored = await self.api.deps.storage.put(chunks(data), max_bytes=1 << 26)
        new = NewPhoto(name, stored.key, stored.size_bytes, stored.sha256, "image/jpeg", datetime.now(UTC))
        async with transaction(self.api.deps.pool) as connection:
            added = await add_photo(connection, self.world.ours.workspace_id, UUID(album), new)
        return str(added.photo.id)

    async def publish(
        self,
        album: str,
        photo: str,
        *,
        generation: int = 1,
        captured_at: datetime | None = None,
        thumb: bytes = THUMB,
        browse: bytes = BROWSE,
    ) -> Photo:
        """As `process_photo` does it, with these bytes as pictures."""
        variants = [
            await self._variant(album, photo, generation, kind, data)
            for kind, data in (("thumb", thumb), ("browse", browse))
        ]
        now = datetime.now(UTC)
        stages = ("enqueued", "started", "decoded", "encoded", "variantsStored")
        times = {stage: now + timedelta(milliseconds=10 * (n + 1)) for n, stage in enumerate(stages)}
        made = Made(generation, 600, 400, captured_at, variants, times)
        async with transaction(self.api.deps.pool) as connection:
            return await publish_photo(connection, UUID(photo), made, first=generation == 1)

    async def photo(self, album: str, name: str = "IMG_1.jpg", **given: Any) -> str:
        """A published photo's id."""
        photo = await self.upload(album, name)
        await self.publish(album, photo, **given)
        return photo

    async def share(self, album: str, **given: Any) -> dict[str, Any]:
        """A share link with its secret."""
        answer = await self.editor.post(f"albums/{album}/shares", json=given)
        assert answer.status_code == 201, answer.text
        shared: dict[str, Any] = answer.json()
        return shared

    async def guest(self, album: str, api: Api | None = None) -> httpx.AsyncClient:
        """Somebody with the cookie of a new share link, and nothing else."""
        return await self.open_link((await self.share(album))["secret"], api)

    async def open_link(self, secret: str, api: Api | None = None) -> httpx.AsyncClient:
        client = (api or self.api).client()
        self.guests.append(client)
        answer = await client.get(f"{self.api.url}{EXCHANGE}{secret}")
        assert answer.status_code == 200, answer.text
        return client

    async def steer(self, album: str, photo: str, verb: str) -> dict[str, Any]:
        answer = await self.editor.post(f"albums/{album}/photos/{photo}/{verb}")
        assert answer.status_code == 200, answer.text
        steered: dict[str, Any] = answer.json()
        return steered

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────
    async def show(self, album: str, photo: str) -> dict[str, Any]:
        answer = await self.editor.get(f"albums/{album}/photos/{photo}")
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def picture(self, album: str, photo: str, kind: str = "thumb") -> str:
        """The address of a picture, below /api/v1/."""
        return picture_of(await self.show(album, photo), kind)

    async def audit(self) -> list[tuple[str, str]]:
        """Verbs and targets, in order."""
        rows = await self.api.deps.pool.fetch("select verb, target from audit_log order by id")
        return [(row["verb"], row["target"]) for row in rows]

    async def _variant(self, album: str, photo: str, generation: int, kind: str, data: bytes) -> Variant:
        digest = hashlib.sha256(data)
        name = f"{kind}-{digest.hexdigest()[:16]}.jpg"
        key = f"photo-live/dev/albums/{album}/variants/{photo}/{generation}/{name}"
        await self.api.deps.storage.put(chunks(data), max_bytes=1 << 26, key=key)
        return Variant(
            kind, generation, key, f"{generation}-{name}", 400, 267, len(data), digest.digest(), "image/jpeg"
        )


def picture_of(photo: Mapping[str, Any], kind: str = "thumb") -> str:
    """The address of one of a photo's pictures, below /api/v1/."""
    url = next(one["url"] for one in photo["variants"] if one["kind"] == kind)
    return str(url).removeprefix("/api/v1/")


def assert_not_found(answer: httpx.Response) -> None:
    """404, and byte for byte the body of whatever does not exist."""
    assert answer.status_code == 404, (answer.request.method, answer.request.url, answer.text)
    if answer.request.method != "HEAD":
        assert answer.json() == NO_SUCH_THING
