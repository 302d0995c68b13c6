"""A served API, and two workspaces that must not see each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.api.harness import Api, World, make_world, open_api


@pytest.fixture
async def world(pool: Any) -> World:
    return await make_world(pool)


@pytest.fixture
async def api(database_url: str, redis_url: str, world: World, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(database_url, redis_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def editor(api: Api, world: World) -> AsyncIterator[httpx.AsyncClient]:
    """Our editor at the API."""
    async with api.client(world.ours.editor) as client:
        yield client


@pytest.fixture
async def admin(api: Api, world: World) -> AsyncIterator[httpx.AsyncClient]:
    """Our admin at the API."""
    async with api.client(world.ours.admin) as client:
        yield client
