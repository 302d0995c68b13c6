"""Albums over HTTP: photos in, share links out, and what becomes of both.

async with Client("http://127.0.0.1:3000", token) as client:
    album = await client.albums.create("Wedding of Lin and Ada")
    await client.albums.upload(album.id, Path("IMG_0001.jpg"))
    link = await client.albums.share(album.id)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lingxi.client.album_model import (
    Album,
    AlbumFrame,
    Photo,
    ShareLink,
    Uploaded,
    Variant,
    parse_album_frame,
)
from lingxi.client.frames import Reconnecting
from lingxi.client.model import Json, Task
from lingxi.client.upload import OnProgress, upload_file
from lingxi.client.watch import Follower

if TYPE_CHECKING:
    from lingxi.client.transport import Transport

MAX_PAGE_ROWS = 500


class Albums:
    """The calls of one server's albums. Every method raises ApiError and Unreachable."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    # ── albums ───────────────────────────────────────────────────────────────────────────────────────────
    async def create(
        self, name: str, *, originals_shared: bool = False, idempotency_key: str | None = None
    ) -> Album:
        """A new album; `originals_shared`: guests with a link may fetch the files as they were uploaded."""
        body = {"name": name, "originalsShared": originals_shared}
        return Album.from_wire(await self._transport.post("albums", body, idempotency_key))

    async def all(self) -> AsyncIterator[Album]:
        """Every album of the workspace, newest first."""
        async for row in self._rows("albums", "albums"):
            yield Album.from_wire(row)

    async def find(self, name: str) -> list[Album]:
        """Those of this very name, newest first; names need not be unique."""
        return [album async for album in self.all() if album.name == name]

    async def get(self, album_id: str) -> Album:
        return Album.from_wire(await self._transport.ask("GET", _path(album_id)))

    async def change(
        self, album_id: str, *, name: str | None = None, originals_shared: bool | None = None
    ) -> Album:
        """What is None stays as it is."""
        asked = {"name": name, "originalsShared": originals_shared}
        body = {key: value for key, value in asked.items() if value is not None}
        return Album.from_wire(await self._transport.ask("PATCH", _path(album_id), body))

    async def delete(self, album_id: str) -> None:
        """With its photos and share links, for everybody, for good."""
        await self._transport.send("DELETE", _path(album_id))

    async def reprocess(self, album_id: str, *, idempotency_key: str | None = None) -> list[Task]:
        """Makes the pictures of all photos anew; the tasks that do it."""
        answer = await self._transport.post(f"{_path(album_id)}/reprocess", None, idempotency_key)
        return [Task.from_wire(task) for task in answer["tasks"]]

    async def fingerprint(self, album_id: str, *, idempotency_key: str | None = None) -> list[Task]:
        """Takes the fingerprints that photos do not have yet; the tasks that do it, often none."""
        answer = await self._transport.post(f"{_path(album_id)}/fingerprint", None, idempotency_key)
        return [Task.from_wire(task) for task in answer["tasks"]]

    async def duplicates(self, album_id: str) -> AsyncIterator[Json]:
        """Every group of photos that look alike, as the wire has it."""
        async for row in self._rows(f"{_path(album_id)}/duplicates", "groups"):
            yield row

    async def stats(self, album_id: str) -> Json:
        """How long its photos took, by stage, as the wire has it."""
        return await self._transport.ask("GET", f"{_path(album_id)}/stats")

    # ── photos ───────────────────────────────────────────────────────────────────────────────────────────
    async def upload(
        self,
        album_id: str,
        path: Path,
        *,
        file_name: str | None = None,
        on_progress: OnProgress | None = None,
        patience_seconds: float | None = 60.0,
    ) -> Uploaded:
        """Sends a file, going on after lost connections; the same bytes again are the same photo."""
        return await upload_file(
            self._transport,
            album_id,
            path,
            file_name=file_name,
            on_progress=on_progress,
            patience_seconds=patience_seconds,
        )

    async def photos(self, album_id: str) -> AsyncIterator[Photo]:
        """All of them, in the album's order."""
        async for row in self._rows(f"{_path(album_id)}/photos", "photos"):
            yield Photo.from_wire(row)

    async def photo(self, album_id: str, photo_id: str) -> Photo:
        return Photo.from_wire(await self._transport.ask("GET", _path(album_id, photo_id)))

    async def hide(self, album_id: str, photo_id: str) -> Photo:
        """Nobody with a link sees it until it is shown again."""
        return await self._steer(album_id, photo_id, "hide")

    async def show(self, album_id: str, photo_id: str) -> Photo:
        """A hidden one comes back."""
        return await self._steer(album_id, photo_id, "show")

    async def recall(self, album_id: str, photo_id: str) -> Photo:
        """Gone for guests for good; its pictures are removed."""
        return await self._steer(album_id, photo_id, "recall")

    async def delete_photo(self, album_id: str, photo_id: str) -> None:
        await self._transport.send("DELETE", _path(album_id, photo_id))

    async def timeline(self, album_id: str, photo_id: str) -> Json:
        """When it passed each stage, as the wire has it."""
        return await self._transport.ask("GET", f"{_path(album_id, photo_id)}/timeline")

    def original(self, album_id: str, photo_id: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """The bytes of the file as it was uploaded, from `start` on."""
        return self._download(f"{_path(album_id, photo_id)}/original", start)

    def picture(self, variant: Variant, *, start: int = 0) -> AsyncIterator[bytes]:
        """The bytes of one of a photo's variants, from `start` on."""
        return self._download(variant.path, start)

    # ── share links and the feed ─────────────────────────────────────────────────────────────────────────
    async def share(self, album_id: str, *, lifetime_seconds: int | None = None) -> ShareLink:
        """A new link; only this answer has its secret and address. None: good until it is revoked."""
        body = {"lifetimeSeconds": lifetime_seconds}
        return ShareLink.from_wire(await self._transport.post(f"{_path(album_id)}/shares", body))

    async def shares(self, album_id: str) -> list[ShareLink]:
        answer = await self._transport.ask("GET", f"{_path(album_id)}/shares")
        return [ShareLink.from_wire(row) for row in answer["shares"]]

    async def revoke(self, album_id: str, share_id: str) -> None:
        """Guests who hold it see nothing more, open pages included."""
        await self._transport.send("DELETE", f"{_path(album_id)}/shares/{quote(share_id, safe='')}")

    def watch(
        self,
        album_id: str,
        *,
        last_event_id: str | None = None,
        patience_seconds: float | None = 60.0,
    ) -> AsyncGenerator[AlbumFrame | Reconnecting, None]:
        """The feed, which has no end; reconnects as needed. `last_event_id="0"` replays every photo first."""
        follower: Follower[AlbumFrame] = Follower(
            self._transport.stream_opener(f"{_path(album_id)}/events"),
            parse_album_frame,
            last_event_id=last_event_id,
            patience_seconds=patience_seconds,
        )
        return follower.frames()

    # ── shared ───────────────────────────────────────────────────────────────────────────────────────────
    async def _steer(self, album_id: str, photo_id: str, verb: str) -> Photo:
        return Photo.from_wire(await self._transport.post(f"{_path(album_id, photo_id)}/{verb}", None))

    def _download(self, path: str, start: int) -> AsyncIterator[bytes]:
        return self._transport.download(path, {"Range": f"bytes={start}-"} if start else None)

    async def _rows(self, path: str, key: str) -> AsyncIterator[Json]:
        cursor: str | None = None
        while True:
            page = await self._transport.page(path, key, MAX_PAGE_ROWS, cursor, {})
            for row in page.rows:
                yield row
            if (cursor := page.next_cursor) is None:
                return


def _path(album_id: str, photo_id: str | None = None) -> str:
    album = f"albums/{quote(album_id, safe='')}"
    return album if photo_id is None else f"{album}/photos/{quote(photo_id, safe='')}"
