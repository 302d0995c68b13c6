"""Work on the servers of the test session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.soundness import violations
from tests.support.work import Work


@pytest.fixture
async def work(pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> AsyncIterator[Work]:
    """A workspace, and a dispatcher that runs. At the end the rows have to be sound."""
    started = await Work.begin(pool, database_url, redis_url)
    async with started.dispatching():
        yield started
    assert await violations(database_url) == []
