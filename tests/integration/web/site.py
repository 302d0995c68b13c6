"""The pages over a real database, with two workspaces and whoever looks at them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import httpx
from starlette.applications import Starlette
from starlette.requests import Request

from lingxi.db.session import Pool
from lingxi.domain.photos import Album, Variant
from lingxi.domain.wire import Task
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.publish_photo import Made, publish_photo
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.workspaces import create_workspace
from lingxi.web.deps import Cookie, Look, Opened, PagesDeps, SignedIn
from lingxi.web.routes import pages_routes

COOKIE = "session"


@dataclass
class Site:
    """The pages with two workspaces; the cookie's value is `<which>:<role>`."""

    client: httpx.AsyncClient
    pool: Pool
    ours: UUID
    theirs: UUID
    shares: dict[str, Opened] = field(default_factory=dict)
    """Share links by their secrets."""
    looks: dict[str, Look] = field(default_factory=dict)
    """Who may look at an album, by the value of the cookie `share`."""

    async def submit(self, workspace: UUID, *refs: str) -> Task:
        new = NewTask(workspace, "demo:drill", 1, list(refs), ["{}"] * len(refs))
        async with self.pool.acquire() as connection, connection.transaction():
            return await submit_task(connection, new)

    async def publish(self, album: Album, number: int, *, file_name: str = "photo.jpg") -> UUID:
        """A published photo, as rows only: its pictures have no files. `number` makes its content its own."""
        digest = hashlib.sha256(str(number).encode()).digest()
        key = f"{album.id}-{number}"
        new = NewPhoto(file_name, key, 1, digest, "image/jpeg", datetime.now(UTC))
        variants = [
            Variant(kind, 1, f"{key}-{kind}", f"1-{kind}.jpg", width, width, 1, digest, "image/jpeg")
            for kind, width in (("thumb", 400), ("browse", 2048))
        ]
        made = Made(1, 2048, 2048, None, variants, {})
        async with self.pool.acquire() as connection, connection.transaction():
            photo = (await add_photo(connection, album.workspace_id, album.id, new)).photo
            await publish_photo(connection, photo.id, made, first=True)
        return photo.id

    async def get(
        self, path: str, who: str | None = "ours:editor", *, share: str | None = None, **headers: str
    ) -> httpx.Response:
        cookies = {name: value for name, value in ((COOKIE, who), ("share", share)) if value}
        told = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())} if cookies else {}
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(path, headers=told | extra)


@asynccontextmanager
async def open_site(pool: Pool) -> AsyncIterator[Site]:
    async with pool.acquire() as connection:
        made = [await create_workspace(connection, name) for name in ("ours", "theirs")]
    ours, theirs = (workspace.id for workspace in made if workspace)
    ids = {"ours": ours, "theirs": theirs}

    async def sign_in(secret: str) -> Cookie | None:
        return Cookie(COOKIE, "ours:editor", 60) if secret == "lx_right" else None

    async def follow_link(secret: str) -> Cookie | None:
        return Cookie(COOKIE, "ours:editor", 60) if secret == "once" else None

    async def who(request: Request) -> SignedIn | None:
        which, _, role = request.cookies.get(COOKIE, "").partition(":")
        return SignedIn(ids[which], role) if which else None

    def same_origin(request: Request) -> bool:
        return request.headers.get("origin") == "http://here"

    async def open_share(request: Request, secret: str) -> Opened | None:
        return site.shares.get(secret)

    async def look(request: Request, album_id: str) -> Look | None:
        return site.looks.get(request.cookies.get("share", ""))

    deps = PagesDeps(pool, COOKIE, sign_in, follow_link, who, same_origin, open_share, look)
    app = Starlette(routes=pages_routes(deps))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        site = Site(client, pool, ours, theirs)
        yield site
