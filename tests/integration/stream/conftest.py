"""A hub over the test's own database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.stream.stage import Stage, open_stage


@pytest.fixture
async def stage(pool: Any, database_url: str) -> AsyncIterator[Stage]:
    async with open_stage(pool, database_url) as opened:
        yield opened
