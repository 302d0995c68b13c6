"""Children that decode and encode, and videos given to them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lingxi.video.children import VideoChildren, VideoConfig
from lingxi.video.poster import PosterOptions, make_poster
from lingxi.video.probe import probe as run_probe
from lingxi.video.source import open_source
from lingxi.video.transcode import TranscodeOptions
from lingxi.video.transcode import transcode as run_transcode
from tests.support.clips import CORNERS, Seen, seen


@dataclass
class Made:
    """What became of a video: facts, bytes, and what a player sees."""

    facts: dict[str, Any]
    data: bytes
    seen: Seen
    progress: list[tuple[float, float | None]] = field(default_factory=list)


Transcode = Callable[..., Awaitable[Made]]
Poster = Callable[..., Awaitable[tuple[dict[str, Any], bytes, bytes]]]
Probe = Callable[[bytes], Awaitable[dict[str, Any]]]


@pytest.fixture
async def videos() -> AsyncIterator[VideoChildren]:
    opened = VideoChildren(VideoConfig(threads=1))
    yield opened
    await opened.close()


@pytest.fixture
def transcode(tmp_path: Path) -> Transcode:
    """In this process, which takes a third of the time; what has to do with children is in test_children.py."""

    async def make_it(data: bytes, **options: Any) -> Made:
        progress: list[tuple[float, float | None]] = []
        wanted = TranscodeOptions(**{"threads": 1, **options})

        def work() -> tuple[dict[str, Any], bytes]:
            with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as made:
                file.write(data)
                file.flush()
                with open_source(file.fileno()) as source:
                    facts = run_transcode(
                        source, made.fileno(), wanted, lambda done, total: progress.append((done, total))
                    )
                made.seek(0)
                return facts, made.read()

        facts, made = await asyncio.to_thread(work)
        return Made(facts, made, seen(made), progress)

    return make_it


@pytest.fixture
def poster() -> Poster:
    """Facts, the poster's bytes, the preview's."""

    async def make_it(data: bytes, **options: Any) -> tuple[dict[str, Any], bytes, bytes]:
        wanted = PosterOptions(**{"threads": 1, **options})
        with (
            tempfile.TemporaryFile() as file,
            tempfile.TemporaryFile() as image,
            tempfile.TemporaryFile() as preview,
        ):
            file.write(data)
            file.flush()
            with open_source(file.fileno()) as source:
                facts = await asyncio.to_thread(make_poster, source, image.fileno(), preview.fileno(), wanted)
            image.seek(0)
            preview.seek(0)
            return facts, image.read(), preview.read()

    return make_it


@pytest.fixture
def probe() -> Probe:
    async def look(data: bytes) -> dict[str, Any]:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            with open_source(file.fileno()) as source:
                return run_probe(source)

    return look


def assert_colour(found: list[float], wanted: tuple[float, ...], tolerance: float = 12) -> None:
    assert all(abs(a - b) <= tolerance for a, b in zip(found, wanted, strict=True)), (found, wanted)


def assert_upright(video: Seen, index: int = 0, tolerance: float = 12) -> None:
    """Each colour in its corner."""
    for place, colour in CORNERS.items():
        assert_colour(video.colour(*place, index=index), colour, tolerance)
