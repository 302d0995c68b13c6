"""Work, and workers as processes, on the servers of the test session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from tests.support.processes import Process, Processes
from tests.support.soundness import violations
from tests.support.work import Work

StartWorker = Callable[..., Process]


@pytest.fixture
async def work(pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> AsyncIterator[Work]:
    """A workspace, and a dispatcher that runs. At the end the rows have to be sound."""
    started = await Work.begin(pool, database_url, redis_url)
    async with started.dispatching():
        yield started
    assert await violations(database_url) == []


@pytest.fixture
def start_worker(work: Work, processes: Processes, tmp_path: Path) -> StartWorker:
    """`start_worker(processes=1, QUEUE="demo", …)`: a supervisor and its workers, with short times."""

    def start(number: int = 1, **settings: str) -> Process:
        environment = {
            "DATABASE_URL": work.database_url,
            "REDIS_URL": work.redis_url,
            "LINGXI_DATA_DIR": str(tmp_path / "data"),
            "QUEUE": "demo",
            "LINGXI_TESTING": "1",
            "LINGXI_FAILPOINTS_DIR": str(tmp_path),
            "LEASE_SECONDS": "3",
            "LEASE_RENEW_SECONDS": "0.5",
            "SWEEP_INTERVAL_SECONDS": "0.5",
            "GRACE_SECONDS": "10",
            **settings,
        }
        return processes.lingxi("worker", "--processes", str(number), env=environment)

    return start
