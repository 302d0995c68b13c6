"""Albums of somebody else's server: the contract of their feed in memory, and on demand broken in one of ALBUM_FAULTS."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

ALBUM_FAULTS = {  # what is broken: the rule that must notice
    "album_snapshot_lacks_counts": "album-snapshot",
    "album_numbers_skip": "album-dense",
    "album_resume_skips_one": "album-every-id",
    "album_zero_is_fresh": "album-zero",
    "album_zero_forgets_removed": "album-zero",
    "album_garbage_is_fresh": "album-reset",
    "album_hidden_is_not_told": "album-removed",
    "album_name_is_not_told": "album-renamed",
    "guests_are_told_file_names": "album-guests",
    "share_opens_every_album": "album-guests",
    "guests_are_told_of_the_unseen": "album-unseen",
    "album_resume_forgets_untold": "album-cuts",
    "revoked_goes_on": "album-revoked",
    "revoked_opens_again": "album-revoked",
    "deleted_goes_on": "album-deleted",
    "feed_is_open_to_all": "album-access",
    "feed_token_opens_all": "album-access",
}
_STATES = {"hide": "hidden", "show": "published", "recall": "recalled", "delete": "deleted"}
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


@dataclass
class SmallPhoto:
    number: int
    id: str = field(default_factory=lambda: str(uuid4()))
    visibility: str = "unpublished"
    state: str = "uploaded"
    was_published: bool = False

    def wire(self, guest: bool, tell_names: bool = False) -> dict[str, Any]:
        told = {"id": self.id, "visibility": self.visibility, "processingState": self.state}
        return told if guest and not tell_names else {**told, "fileName": "a.png"}


@dataclass
class SmallAlbum:
    name: str
    id: str = field(default_factory=lambda: str(uuid4()))
    number: int = 1
    named_at: int = 1
    deleted: bool = False
    photos: dict[str, SmallPhoto] = field(default_factory=dict)
    shares: dict[str, bool] = field(default_factory=dict)  # id: does it hold
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def touch(self, photo: SmallPhoto | None = None, step: int = 1) -> None:
        self.number += step
        if photo is not None:
            photo.number = self.number
        self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def wire(self, guest: bool) -> dict[str, Any]:
        published = sum(photo.visibility == "published" for photo in self.photos.values())
        counts = {"published": published} if guest else {"published": published, "photos": len(self.photos)}
        return {"id": self.id, "name": self.name, "cursor": self.number, "counts": counts}


@dataclass(frozen=True)
class Viewer:
    share: str | None  # None: a member


class SmallAlbums:
    """Routes of albums; photos are published by themselves a moment after their upload."""

    def __init__(self, fault: str | None, token: str) -> None:
        self.fault, self.token = fault, token
        self.albums: dict[str, SmallAlbum] = {}
        self.tokens: dict[str, str] = {}
        self.work: set[asyncio.Task[None]] = set()
        base = "/api/v1/albums"
        one = base + "/{id}"
        self.routes = [
            Route(base, self.create, methods=["POST"]),
            Route(one, self.album, methods=["GET", "PATCH", "DELETE"]),
            Route(one + "/photos", self.photos, methods=["GET", "POST"]),
            Route(one + "/photos/{photo}", self.photo, methods=["GET", "DELETE"]),
            Route(one + "/photos/{photo}/{verb}", self.photo, methods=["POST"]),
            Route(one + "/shares", self.share, methods=["POST"]),
            Route(one + "/shares/{share}", self.revoke, methods=["DELETE"]),
            Route(one + "/stream-token", self.stream_token, methods=["POST"]),
            Route(one + "/events", self.events),
            Route("/s/{secret}", self.open_share),
        ]

    def close(self) -> None:
        for task in self.work:
            task.cancel()

    # ── who asks ─────────────────────────────────────────────────────────────────────────────────────────

    def who(self, request: Request) -> tuple[SmallAlbum, Viewer] | Response:
        album = self.albums.get(request.path_params["id"])
        if request.headers.get("authorization") == f"Bearer {self.token}":
            viewer = Viewer(None)
        elif share := request.cookies.get("share"):
            if self.fault == "share_opens_every_album" and album is None:
                return JSONResponse({"code": 40401, "album": request.path_params["id"]}, 404)
            holds = album is not None and (album.shares.get(share) or self.fault == "revoked_opens_again")
            if not holds and self.fault != "share_opens_every_album":
                return JSONResponse({"code": 40401}, 404)
            viewer = Viewer(share)
        elif request.query_params.get("token") in self.tokens:
            allowed = self.tokens[request.query_params["token"]] == request.path_params["id"]
            if not allowed and self.fault != "feed_token_opens_all":
                return JSONResponse({"code": 40101}, 401)
            viewer = Viewer(None)
        elif self.fault == "feed_is_open_to_all":
            viewer = Viewer(None)
        else:
            return JSONResponse({"code": 40101}, 401)
        if album is None or album.deleted:
            return JSONResponse({"code": 40401}, 404)
        return album, viewer

    # ── the album ────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return JSONResponse({"code": 40101}, 401)
        album = SmallAlbum((await request.json())["name"])
        self.albums[album.id] = album
        return JSONResponse(album.wire(guest=False), 201)

    async def album(self, request: Request) -> Response:
        known = self.who(request)
        if isinstance(known, Response):
            return known
        album, viewer = known
        if request.method == "PATCH":
            album.name = (await request.json())["name"]
            album.touch()
            if self.fault != "album_name_is_not_told":
                album.named_at = album.number
        if request.method == "DELETE":
            album.deleted = True
            album.touch()
            return Response(status_code=204)
        return JSONResponse(album.wire(viewer.share is not None))

    async def photos(self, request: Request) -> Response:
        known = self.who(request)
        if isinstance(known, Response):
            return known
        album, viewer = known
        if request.method == "GET":
            guest = viewer.share is not None
            seen = [p for p in album.photos.values() if p.visibility == "published" or not guest]
            listed = [p.wire(guest) for p in seen if p.visibility != "deleted"]
            return JSONResponse({"photos": listed, "nextCursor": None})
        body = await request.body()
        added = []
        for _ in range(body.count(b'filename="')):
            photo = SmallPhoto(0)
            album.photos[photo.id] = photo
            album.touch(photo)
            added.append(photo)
            task = asyncio.create_task(self.process(album, photo, b"damaged" in body))
            self.work.add(task)
        return JSONResponse({"files": [{"photo": p.wire(guest=False)} for p in added]}, 201)

    async def process(self, album: SmallAlbum, photo: SmallPhoto, damaged: bool) -> None:
        await asyncio.sleep(0.03 + 0.02 * random.random())
        if photo.visibility != "unpublished":
            return
        photo.state = "processing_failed" if damaged else "ready"
        if not damaged:
            photo.visibility, photo.was_published = "published", True
        album.touch(photo)

    async def photo(self, request: Request) -> Response:
        known = self.who(request)
        if isinstance(known, Response):
            return known
        album, _ = known
        photo = album.photos[request.path_params["photo"]]
        verb = "delete" if request.method == "DELETE" else request.path_params.get("verb")
        if verb is not None:
            photo.visibility = _STATES[verb]
            silent = self.fault == "album_hidden_is_not_told" and verb == "hide"
            album.touch(None if silent else photo, 2 if self.fault == "album_numbers_skip" else 1)
        return Response(status_code=204) if verb == "delete" else JSONResponse(photo.wire(guest=False))

    async def share(self, request: Request) -> Response:
        known = self.who(request)
        assert not isinstance(known, Response)
        share = str(uuid4())
        known[0].shares[share] = True
        return JSONResponse({"id": share, "url": f"/s/{share}"}, 201)

    async def open_share(self, request: Request) -> Response:
        answer = Response("opened")
        answer.set_cookie("share", request.path_params["secret"])
        return answer

    async def revoke(self, request: Request) -> Response:
        known = self.who(request)
        assert not isinstance(known, Response)
        known[0].shares[request.path_params["share"]] = False
        if self.fault != "revoked_goes_on":
            known[0].wake()
        return Response(status_code=204)

    async def stream_token(self, request: Request) -> Response:
        known = self.who(request)
        assert not isinstance(known, Response)
        token = uuid4().hex
        self.tokens[token] = known[0].id
        return JSONResponse({"token": token})

    # ── the feed ─────────────────────────────────────────────────────────────────────────────────────────

    async def events(self, request: Request) -> Response:
        known = self.who(request)
        if isinstance(known, Response):
            return known
        given = request.headers.get("last-event-id") or request.query_params.get("lastEventId")
        return StreamingResponse(self.frames(*known, given), headers=_HEADERS)

    def opening(self, album: SmallAlbum, guest: bool, given: str | None) -> tuple[list[bytes], int]:
        after = (
            int(given) if given and given.isascii() and given.isdigit() and str(int(given)) == given else None
        )
        known = after is not None and after <= album.number
        wire = album.wire(guest)
        if self.fault == "album_snapshot_lacks_counts":
            wire.pop("counts")
        first = [b"retry: 1200\n\n"]
        fresh = given is None or (self.fault == "album_zero_is_fresh" and given == "0")
        if fresh or (self.fault == "album_garbage_is_fresh" and not known):
            return [*first, _frame("snapshot", wire, album.number)], album.number
        if not known:
            return [*first, _frame("reset", {}, 0), _frame("snapshot", wire)], 0
        assert after is not None
        return first, after + (self.fault == "album_resume_skips_one")

    async def frames(self, album: SmallAlbum, viewer: Viewer, given: str | None) -> AsyncIterator[bytes]:
        guest = viewer.share is not None
        first, seen = self.opening(album, guest, given)
        for frame in first:
            yield frame
        if self.fault == "album_resume_forgets_untold" and seen:
            seen = max(seen, album.number - 1)
        started_at_zero = given == "0"
        while True:
            news = album.changed
            if album.deleted and self.fault != "deleted_goes_on":
                return
            if (
                viewer.share is not None
                and not album.shares[viewer.share]
                and self.fault != "revoked_goes_on"
            ):
                return
            rows = [
                (photo.number, frame)
                for photo in album.photos.values()
                if photo.number > seen and (frame := self.told(photo, guest, started_at_zero))
            ]
            if album.named_at > seen:
                rows.append((album.named_at, _frame("snapshot", album.wire(guest), album.named_at)))
            seen = album.number
            for _, frame in sorted(rows):
                yield frame
            await news.wait()

    def told(self, photo: SmallPhoto, guest: bool, replayed: bool) -> bytes | None:
        visible = photo.visibility == "published"
        if visible or (photo.visibility == "unpublished" and not guest):
            names = self.fault == "guests_are_told_file_names"
            return _frame("photo", photo.wire(guest, names), photo.number)
        if guest and not photo.was_published and self.fault != "guests_are_told_of_the_unseen":
            return None
        if self.fault == "album_zero_forgets_removed" and replayed:
            return None
        removed: dict[str, Any] = {"id": photo.id, "visibility": photo.visibility}
        if not guest and photo.visibility != "deleted":
            removed["photo"] = photo.wire(guest)
        return _frame("removed", removed, photo.number)


def _frame(event: str, data: Any, number: int | None = None) -> bytes:
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()
