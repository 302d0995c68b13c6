"""A served API with two workspaces, and a dispatcher and workers beside it, over one database and one Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.integration.api.conftest import world
from tests.integration.api.harness import Api, World, open_api
from tests.integration.uploads.conftest import stage
from tests.support.soundness import violations
from tests.support.work import Work

__all__ = ["stage", "world"]


@pytest.fixture
async def work(pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> AsyncIterator[Work]:
    """A dispatcher that runs. At the end the rows have to be sound."""
    started = await Work.begin(pool, database_url, redis_url)
    async with started.dispatching():
        yield started
    assert await violations(database_url) == []


@pytest.fixture
async def api(work: Work, world: World, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(work.database_url, work.redis_url, tmp_path) as opened:
        yield opened
