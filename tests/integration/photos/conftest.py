"""An album on the servers of the test session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from lingxi.observability import failpoints
from tests.support.photos import Photos
from tests.support.soundness import violations
from tests.support.work import Work


@pytest.fixture
async def album(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str, tmp_path: Path
) -> AsyncIterator[Photos]:
    """An album, and no dispatcher: `album.work.dispatching()` is one. At the end the rows have to be sound."""
    async with Photos.open(await Work.begin(pool, database_url, redis_url), tmp_path / "data") as photos:
        yield photos
    assert await violations(database_url) == []


@pytest.fixture
async def photos(album: Photos) -> AsyncIterator[Photos]:
    """An album, and a dispatcher that runs."""
    async with album.work.dispatching():
        yield album


@pytest.fixture
def arm(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`arm(spec)` arms failpoints in this process and gives their folder."""

    def run(spec: str) -> Path:
        failpoints.disarm()
        failpoints.arm(spec, tmp_path)
        return tmp_path

    yield run
    failpoints.disarm()
