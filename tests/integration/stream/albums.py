"""Albums on a stage: the services that change them, and viewers that keep what frames tell."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from lingxi.conformance.album_model import AlbumModel
from lingxi.conformance.sse import Frame, Parser
from lingxi.domain.photos import Album, Photo, Variant, album_to_wire, photo_to_wire
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.albums import change_album, count_photos, create_album, delete_album, get_album
from lingxi.services.publish_photo import Made, fail_photo, publish_photo
from lingxi.services.read_photos import list_photos
from lingxi.services.steer_photo import delete_photo, hide_photo, recall_photo, show_photo
from lingxi.stream.subject import AlbumKey
from lingxi.stream.watcher import Watcher
from tests.integration.stream.stage import Stage

STEERING = {"hide": hide_photo, "show": show_photo, "recall": recall_photo, "delete": delete_photo}


@dataclass
class AlbumViewer:
    """One connection to an album's feed."""

    watcher: Watcher
    model: AlbumModel
    gate: asyncio.Event
    limit: int | None = None  # frames after which the connection is lost
    frames: list[Frame] = field(default_factory=list)
    parser: Parser = field(default_factory=Parser)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    last_id: str | None = None

    async def send(self, body: bytes) -> None:
        await self.gate.wait()
        self.take(body)

    def send_now(self, body: bytes) -> bool:
        if not self.gate.is_set():
            return False
        self.take(body)
        return True

    def take(self, body: bytes) -> None:
        for frame in self.parser.feed(body, asyncio.get_running_loop().time()):
            if self.limit is not None and len(self.frames) >= self.limit:
                break
            self.frames.append(frame)
            self.model.apply(frame)
            self.last_id = frame.id if frame.id is not None else self.last_id
        self.changed.set()
        if self.limit is not None and len(self.frames) >= self.limit:
            self.watcher.stop()

    @property
    def events(self) -> list[str]:
        return [frame.event for frame in self.frames]

    @property
    def numbers(self) -> list[int]:
        return [frame.number for frame in self.frames if frame.id is not None]

    def has_all_up_to(self, number: int) -> bool:
        """Was it sent all that the hub has of the album up to this number? Not all of it is for its eyes."""
        channel, waiting = self.watcher.channel, self.watcher._waiting
        at_the_end = waiting is not None and not waiting.done() and self.watcher._offset == channel.log.end
        return at_the_end and channel.subject is not None and channel.subject.cursor >= number

    async def until(self, fact: Any, timeout_seconds: float = 15) -> None:
        async with asyncio.timeout(timeout_seconds):
            while not fact(self):
                self.changed.clear()
                await self.changed.wait()

    async def ended(self, timeout_seconds: float = 15) -> None:
        assert self.task is not None
        async with asyncio.timeout(timeout_seconds):
            await asyncio.wait([self.task])


class Gallery:
    """An album on a stage, and what happens to it."""

    def __init__(self, stage: Stage, album: Album) -> None:
        self.stage, self.id = stage, album.id
        self.uploads = 0

    @classmethod
    async def open(cls, stage: Stage, name: str = "Wedding") -> Gallery:
        async with stage.pool.acquire() as c:
            return cls(stage, await create_album(c, stage.workspace_id, name))

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    async def upload(self) -> UUID:
        self.uploads += 1
        content = f"{self.id} {self.uploads}".encode()
        new = NewPhoto(
            f"IMG_{self.uploads}.jpg",
            f"originals/{self.id}/{self.uploads}",
            len(content),
            hashlib.sha256(content).digest(),
            "image/jpeg",
            datetime.now(UTC),
        )
        async with self.stage.pool.acquire() as c, c.transaction():
            return (await add_photo(c, self.stage.workspace_id, self.id, new)).photo.id

    async def publish(self, photo_id: UUID, generation: int = 1) -> Photo:
        variants = [
            Variant(
                kind,
                generation,
                f"variants/{photo_id}/{generation}/{kind}",
                f"{generation}-{kind}-0123456789abcdef.jpg",
                width,
                width * 3 // 4,
                1000,
                b"0" * 32,
                "image/jpeg",
            )
            for kind, width in (("thumb", 400), ("browse", 2048))
        ]
        made = Made(generation, 4000, 3000, None, variants, {"decoded": datetime.now(UTC)})
        async with self.stage.pool.acquire() as c, c.transaction():
            return await publish_photo(c, photo_id, made, first=generation == 1)

    async def fail(self, photo_id: UUID) -> None:
        async with self.stage.pool.acquire() as c, c.transaction():
            await fail_photo(c, photo_id, "corrupt_image")

    async def photo(self) -> UUID:
        """Uploaded and published."""
        photo_id = await self.upload()
        await self.publish(photo_id)
        return photo_id

    async def steer(self, verb: str, photo_id: UUID) -> None:
        async with self.stage.pool.acquire() as c, c.transaction():
            await STEERING[verb](c, self.id, photo_id)

    async def rename(self, name: str) -> None:
        async with self.stage.pool.acquire() as c, c.transaction():
            await change_album(c, self.stage.workspace_id, self.id, name=name, originals_shared=None)

    async def delete(self) -> None:
        async with self.stage.pool.acquire() as c, c.transaction():
            await delete_album(c, self.stage.workspace_id, self.id)

    # ── truth ────────────────────────────────────────────────────────────────────────────────────────────

    async def album(self, *, shared: bool) -> dict[str, Any]:
        async with self.stage.pool.acquire() as c:
            album = await get_album(c, self.stage.workspace_id, self.id)
            counts = await count_photos(c, [self.id])
        return album_to_wire(album, counts[self.id], member=not shared)

    async def photos(self, *, shared: bool) -> list[dict[str, Any]]:
        async with self.stage.pool.acquire() as c:
            photos = await list_photos(c, self.id, shared_only=shared, after=None, limit=20_000)
        return [photo_to_wire(photo, member=not shared) for photo in photos]

    async def differences(self, viewer: AlbumViewer) -> list[str]:
        key = viewer.watcher.channel.key
        assert isinstance(key, AlbumKey)
        return viewer.model.differences(await self.photos(shared=key.shared))

    # ── watching ─────────────────────────────────────────────────────────────────────────────────────────

    async def watch(
        self,
        last_event_id: str | None = None,
        *,
        shared: bool = False,
        model: AlbumModel | None = None,
        grant: Hashable = "grant",
        held: bool = False,
        limit: int | None = None,
    ) -> AlbumViewer:
        stage = self.stage
        watcher = await stage.hub.open(
            AlbumKey(self.id, shared),
            workspace_id=stage.workspace_id,
            grant=grant,
            last_event_id=last_event_id,
        )
        assert watcher is not None
        viewer = AlbumViewer(
            watcher, model if model is not None else AlbumModel(), asyncio.Event(), limit=limit
        )
        viewer.last_id = last_event_id
        if not held:
            viewer.gate.set()
        direct = viewer.send_now if len(stage.album_viewers) % 2 else None
        viewer.task = asyncio.create_task(stage.hub.serve(watcher, viewer.send, direct))
        stage.album_viewers.append(viewer)
        return viewer
