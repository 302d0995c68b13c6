"""Albums over HTTP: members, guests with share links, photos that are published without queue or worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from lingxi.api.share_cookies import open_share
from lingxi.db.session import transaction
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.processors.publish import PublishDeps, process_photo
from lingxi.services.add_photo import NewPhoto, add_photo
from tests.integration.api.harness import Api, World
from tests.support.photos import chunks
from tests.support.pictures import picture

SHARE_COOKIE = "lingxi_share_"


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
    """Our editor's client, and what is needed to publish photos."""

    api: Api
    world: World
    editor: httpx.AsyncClient
    publish: PublishDeps

    @classmethod
    @asynccontextmanager
    async def open(cls, api: Api, world: World, folder: Path) -> AsyncIterator[Stage]:
        api.app.router.routes.append(Route("/test/exchange/{secret}", exchange))
        decoders = Decoders(DecoderConfig(children=1))
        deps = PublishDeps(
            api.deps.storage, decoders, lambda: transaction(api.deps.pool), folder / "scratch"
        )
        async with api.client(world.ours.editor) as editor:
            try:
                yield cls(api, world, editor, deps)
            finally:
                await decoders.close()

    # ── doing ────────────────────────────────────────────────────────────────────────────────────────────
    async def album(self, **given: Any) -> str:
        """A new album's id."""
        answer = await self.editor.post("albums", json={"name": "Wedding", **given})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def upload(self, album: str, name: str = "IMG_1.jpg", data: bytes | None = None) -> str:
        """A photo's id; its original is stored, and nothing has processed it."""
        data = picture("jpeg", 600, 400) + name.encode() if data is None else data
        stored = await self.api.deps.storage.put(chunks(data), max_bytes=1 << 26)
        new = NewPhoto(name, stored.key, stored.size_bytes, stored.sha256, "image/jpeg", datetime.now(UTC))
        async with transaction(self.api.deps.pool) as connection:
            added = await add_photo(connection, self.world.ours.workspace_id, UUID(album), new)
        return str(added.photo.id)

    async def photo(self, album: str, name: str = "IMG_1.jpg", data: bytes | None = None) -> str:
        """A published photo's id."""
        photo = await self.upload(album, name, data)
        assert await process_photo(UUID(photo), self.publish, enqueued_at=datetime.now(UTC)) == "published"
        return photo

    async def share(self, album: str, **given: Any) -> dict[str, Any]:
        """A share link with its secret."""
        answer = await self.editor.post(f"albums/{album}/shares", json=given)
        assert answer.status_code == 201, answer.text
        shared: dict[str, Any] = answer.json()
        return shared

    async def guest(self, secret: str) -> httpx.AsyncClient:
        """A client that holds the cookie of a share link, and nothing else."""
        client = self.api.client()
        answer = await client.get(f"{self.api.url}/test/exchange/{secret}")
        assert answer.status_code == 200
        return client

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────
    async def show(self, album: str, photo: str) -> dict[str, Any]:
        answer = await self.editor.get(f"albums/{album}/photos/{photo}")
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def thumb(self, album: str, photo: str) -> str:
        """The address of the photo's thumb."""
        shown = await self.show(album, photo)
        return str(next(one["url"] for one in shown["variants"] if one["kind"] == "thumb"))


def cookie_of(answer: httpx.Response) -> SimpleCookie:
    """The one cookie that an answer sets."""
    (header,) = answer.headers.get_list("set-cookie")
    return SimpleCookie(header)
