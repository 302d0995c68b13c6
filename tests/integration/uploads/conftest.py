"""A served API with an album to upload into."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lingxi.api.limits import Limits
from lingxi.services.albums import create_album
from lingxi.storage import Storage
from tests.integration.api.harness import World, make_world, open_api
from tests.integration.uploads.stage import Stage

LIMITS = Limits(
    max_photo_bytes=256 * 1024, max_photos=12, max_upload_bytes=1024 * 1024, body_timeout_seconds=0.5
)


@pytest.fixture
async def world(pool: Any) -> World:
    return await make_world(pool)


@pytest.fixture
async def stage(
    database_url: str, redis_url: str, world: World, pool: Any, tmp_path: Path
) -> AsyncIterator[Stage]:
    """An API with small limits, an album of ours, and our editor's client."""
    async with open_stage(database_url, redis_url, world, pool, tmp_path, LIMITS) as opened:
        yield opened


@pytest.fixture
async def roomy(
    database_url: str, redis_url: str, world: World, pool: Any, tmp_path: Path
) -> AsyncIterator[Stage]:
    """The same with the limits that everybody has."""
    async with open_stage(database_url, redis_url, world, pool, tmp_path, Limits()) as opened:
        yield opened


@asynccontextmanager
async def open_stage(
    database_url: str,
    redis_url: str,
    world: World,
    pool: Any,
    folder: Path,
    limits: Limits,
    storage: Storage | None = None,
) -> AsyncIterator[Stage]:
    async with pool.acquire() as connection:
        album = await create_album(connection, world.ours.workspace_id, "A wedding")
    async with (
        open_api(database_url, redis_url, folder, limits=limits, storage=storage) as api,
        api.client(world.ours.editor) as client,
    ):
        yield Stage(api, world, pool, album.id, client, folder / "objects")
