"""A served API with albums in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.integration.albums.stage import Stage
from tests.integration.api.harness import make_world, open_api


@pytest.fixture
async def stage(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str, tmp_path: Path
) -> AsyncIterator[Stage]:
    world: Any = await make_world(pool)
    async with open_api(database_url, redis_url, tmp_path) as api, Stage.open(api, world) as opened:
        yield opened
