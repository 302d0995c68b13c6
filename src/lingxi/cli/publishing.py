"""Sending a folder's photos into an album, and learning of each what became of it.

What makes it safe to run again: a file whose bytes are in the album is known by its SHA-256 and not sent; one that was
cut off goes on or is sent anew, and the same bytes are the same photo.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from lingxi.client import Album, ApiError, Client, Photo, PhotoChanged, PhotoRemoved
from lingxi.client.upload import FileChanged
from lingxi.domain.errors import FOR_PHOTOGRAPHERS

UPLOADS_AT_ONCE = 4
_REFUSALS = {41301: "too_large", 41501: "unsupported_type"}  # as forms and failed photos call them
SILENCE_SECONDS = 30.0


class Became(StrEnum):
    """What became of a file. Only `refused` and `failed` are the reader's business."""

    WAITING = "waiting"  # to be sent, or on its way
    SENT = "sent"  # and being processed
    PUBLISHED = "published"
    THERE = "there"  # the same bytes were in the album already
    REFUSED = "refused"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_final(self) -> bool:
        return self not in (Became.WAITING, Became.SENT)


@dataclass(slots=True)
class Outcome:
    """One file. `sentence` says for a photographer why there is no photo of it, `code` for a program."""

    path: Path
    size_bytes: int
    became: Became = Became.WAITING
    photo_id: str | None = None
    code: str | None = None
    sentence: str | None = None
    sent_bytes: int = 0

    def to_wire(self) -> dict[str, Any]:
        error = {"code": self.code, "message": self.sentence} if self.code else None
        return {"file": str(self.path), "status": self.became, "photoId": self.photo_id, "error": error}


@dataclass(slots=True)
class Publishing:
    """One run. `on_change` is told of each outcome whenever something about it has changed."""

    client: Client
    album: Album
    on_change: Callable[[Outcome], None]
    patience_seconds: float | None = 60.0
    outcomes: list[Outcome] = field(default_factory=list)
    _by_content: dict[str, Photo] = field(default_factory=dict)
    _waiting: dict[str, list[Outcome]] = field(default_factory=dict)  # by photo, for what becomes of it
    _photos: dict[str, Photo] = field(default_factory=dict)  # in their latest state, of this run
    _at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(UPLOADS_AT_ONCE))
    _heard: int = 0  # how often something was settled
    _settled: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def learn(self) -> None:
        """Which photos are there already."""
        async for photo in self.client.albums.photos(self.album.id):
            if photo.sha256 is not None:
                self._by_content[photo.sha256] = photo

    async def send(self, paths: Iterable[Path]) -> None:
        """Sends files, some at once; returns when each is sent or refused."""
        outcomes = [Outcome(path, _size(path)) for path in paths]
        self.outcomes += outcomes
        async with asyncio.TaskGroup() as group:
            for outcome in outcomes:
                group.create_task(self._send(outcome))

    def leave_out(self, path: Path, became: Became, code: str, sentence: str) -> None:
        """A file that is not sent, and why."""
        self._end(Outcome(path, _size(path)), became, code, sentence, new=True)

    async def until_settled(self, on_silence: Callable[[], None]) -> None:
        """Waits until it is known of every photo that was sent what became of it. `on_silence` is called when nothing was
        heard of any for SILENCE_SECONDS."""
        while not all(one.became.is_final for one in self.outcomes):
            known = self._heard
            try:
                async with asyncio.timeout(SILENCE_SECONDS), self._settled:
                    await self._settled.wait_for(lambda: self._heard != known)  # noqa: B023 - waited for here
            except TimeoutError:
                on_silence()

    async def follow(self) -> None:
        """The album's feed, until cancelled: photos are published while others are sent."""
        frames = self.client.albums.watch(
            self.album.id, last_event_id=str(self.album.cursor), patience_seconds=self.patience_seconds
        )
        async with aclosing(frames):
            async for frame in frames:
                match frame:
                    case PhotoChanged(photo=photo):
                        await self._heard_of(photo)
                    case PhotoRemoved(photo_id=photo_id):
                        await self._gone(photo_id)
                    case _:
                        pass

    async def _send(self, outcome: Outcome) -> None:
        async with self._at_once:
            try:
                digest = await asyncio.to_thread(_sha256, outcome.path)
                known = self._by_content.get(digest)
                if known is not None and known.processing_state != "processing_failed":
                    outcome.photo_id, outcome.sent_bytes = known.id, outcome.size_bytes
                    await self._sent(outcome, created=False, seen=known)
                    return
                uploaded = await self.client.albums.upload(
                    self.album.id,
                    outcome.path,
                    on_progress=lambda sent: self._progress(outcome, sent),
                    patience_seconds=self.patience_seconds,
                )
                outcome.photo_id = uploaded.photo_id
                await self._sent(outcome, created=uploaded.created or known is not None, seen=None)
            except ApiError as error:
                if not error.is_refusal or error.status in (401, 403, 404):
                    raise  # not this file's fault
                sentence = (error.detail or error.title).rstrip(".") + "."
                self._end(outcome, Became.REFUSED, _code_of(error, outcome), sentence)
            except FileChanged:
                self._end(outcome, Became.FAILED, "file_changed", "The file changed while it was sent.")
            except OSError as error:
                self._end(outcome, Became.FAILED, "unreadable", f"The file cannot be read: {error.strerror}.")

    def _progress(self, outcome: Outcome, sent_bytes: int) -> None:
        outcome.sent_bytes = sent_bytes
        self.on_change(outcome)

    async def _sent(self, outcome: Outcome, *, created: bool, seen: Photo | None) -> None:
        photo_id = outcome.photo_id
        assert photo_id is not None
        if not created:
            photo = seen or await self.client.albums.photo(self.album.id, photo_id)
            if photo.is_settled:
                self._settle(outcome, photo, there=True)
                await self._tell()
                return
        outcome.became = Became.SENT
        self.on_change(outcome)
        self._waiting.setdefault(photo_id, []).append(outcome)
        if (photo_now := self._photos.get(photo_id)) is not None:
            await self._heard_of(photo_now)

    async def _heard_of(self, photo: Photo) -> None:
        self._photos[photo.id] = photo
        if photo.is_settled:
            for outcome in self._waiting.pop(photo.id, ()):
                self._settle(outcome, photo, there=False)
                await self._take_back_parts(outcome.path)
            await self._tell()

    async def _take_back_parts(self, path: Path) -> None:
        """What was sent of a file before it was complete: a camera may pause for longer than a file takes to settle."""
        *earlier, latest = [one for one in self.outcomes if one.path == path]
        for part in earlier:
            if part.became is Became.FAILED and part.photo_id not in (None, latest.photo_id):
                self.outcomes.remove(part)
                try:
                    await self.client.albums.delete_photo(self.album.id, part.photo_id)
                except ApiError as error:
                    if error.status != 404:  # somebody was faster
                        raise

    async def _gone(self, photo_id: str) -> None:
        for outcome in self._waiting.pop(photo_id, ()):
            self._end(outcome, Became.FAILED, "removed", "It was removed from the album meanwhile.")
        await self._tell()

    def _settle(self, outcome: Outcome, photo: Photo, *, there: bool) -> None:
        if photo.processing_state == "processing_failed":
            code, message = photo.error or ("internal", "It could not be published.")
            self._end(outcome, Became.FAILED, code, FOR_PHOTOGRAPHERS.get(code, message))
        elif photo.visibility == "recalled":
            self._end(
                outcome, Became.REFUSED, "recalled", "It was recalled from this album, which is for good."
            )
        else:
            self._end(outcome, Became.THERE if there else Became.PUBLISHED, None, None)

    def _end(
        self,
        outcome: Outcome,
        became: Became,
        code: str | None,
        sentence: str | None,
        *,
        new: bool = False,
    ) -> None:
        if new:
            self.outcomes.append(outcome)
        outcome.became, outcome.code, outcome.sentence = became, code, sentence
        self.on_change(outcome)

    async def _tell(self) -> None:
        self._heard += 1
        async with self._settled:
            self._settled.notify_all()


def _code_of(error: ApiError, outcome: Outcome) -> str:
    return "empty_file" if outcome.size_bytes == 0 else _REFUSALS.get(error.code, str(error.code))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
