"""A served API, its two workspaces, and an operator's client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.integration.api.conftest import admin, api, editor, world
from tests.integration.api.harness import Api, World

__all__ = ["admin", "api", "editor", "world"]


@pytest.fixture
async def operator(api: Api, world: World) -> AsyncIterator[httpx.AsyncClient]:
    """An operator at the API."""
    async with api.client(world.operator) as client:
        yield client
