"""What the acts of the demo need: the story so far, the photographs, and a listener that does one thing once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingxi.cli.exits import usage
from lingxi.cli.submission import object_name

if TYPE_CHECKING:
    from lingxi.client import Frame, Item, TaskState

HELD_BACK = 4
MOST_PHOTOS = 500


@dataclass
class Story:
    """What happened: the tasks made, and every promise that was seen broken."""

    task_ids: list[str] = field(default_factory=list)
    items: int = 0
    worker_killed: bool = False
    lost: int = 0
    doubled: int = 0
    album_url: str = ""  # its share link
    published: int = 0
    explained: int = 0  # photos that are not shown, each with its sentence
    viewer_frames: int = 0
    complaints: list[str] = field(default_factory=list)

    def expect(self, fact: bool, otherwise: str) -> None:
        """Notes `otherwise` as a broken promise unless `fact` holds."""
        if not fact:
            self.complaints.append(otherwise)

    def summary(self) -> dict[str, Any]:
        return {
            "ok": not self.complaints and self.worker_killed and self.lost == 0 and self.doubled == 0,
            "tasks": len(self.task_ids),
            "items": self.items,
            "workerKilled": self.worker_killed,
            "lost": self.lost,
            "doubled": self.doubled,
            "albumUrl": self.album_url,
            "published": self.published,
            "explained": self.explained,
            "viewerFrames": self.viewer_frames,
        }


class Once:
    """A listener to frames that does one thing, once, when the state first allows it."""

    def __init__(
        self, when: Callable[[TaskState], bool], act: Callable[[], Coroutine[Any, Any, object]]
    ) -> None:
        self._when, self._act = when, act
        self._started: asyncio.Task[object] | None = None

    def __call__(self, frame: Frame, state: TaskState) -> None:
        if self._started is None and self._when(state):
            self._started = asyncio.create_task(self._act())

    async def settled(self) -> None:
        """When it is done; raises what it raised."""
        if self._started is not None:
            await self._started


def sample_or_own_photos(given: Path | None, folder: Path) -> dict[Path, str | None]:
    """The reader's own photographs, or the samples, made in `folder`; with what is known to become of each: `ok`, a
    code, or None where only the reader knows."""
    if given is None:
        from lingxi.imaging.samples import make_sample_photos

        return {photo.path: photo.expected for photo in make_sample_photos(folder)}
    files = sorted(path for path in given.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise usage(f"--photos: there is no file in {given}")
    return dict.fromkeys(files[:MOST_PHOTOS])


def arriving_late(photos: dict[Path, str | None]) -> list[Path]:
    """The photographs that arrive late: the last ones that are not known to be broken."""
    good = [file for file, expected in photos.items() if expected in ("ok", None)]
    return good[-min(HELD_BACK, max(1, len(good) // 4)) :]


def object_of(file: Path) -> tuple[str, str]:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return object_name(file, digest), digest


def pid_of_holder(item: Item) -> int | None:
    """The process id in the name of the worker that runs an item (`host:pid:boot`)."""
    attempts = item.raw.get("attempts") or []
    parts = str(attempts[-1].get("worker") or "").split(":") if attempts else []
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else None
