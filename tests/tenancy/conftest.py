"""A served API with its pages, and two workspaces that hold one thing of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lingxi.bootstrap.pages import pages_deps
from lingxi.observability.logging import configure
from lingxi.processors.demo_drill import DRILL
from lingxi.processors.outgoing.post import Poster
from lingxi.processors.registry import Registry
from lingxi.processors.webhook_deliver import WebhookDeliver
from lingxi.web.routes import pages_routes
from tests.integration.api.harness import Api, World, make_world, open_api
from tests.integration.webhooks.conftest import LOOPBACK
from tests.tenancy.estate import Estate, furnish


@pytest.fixture(autouse=True)
def few_logs() -> None:
    """Thousands of requests: their lines would hide what failed."""
    configure("warning")


@pytest.fixture
async def world(pool: Any) -> World:
    return await make_world(pool)


@pytest.fixture
async def api(database_url: str, redis_url: str, world: World, tmp_path: Path) -> AsyncIterator[Api]:
    deliver = WebhookDeliver(lambda: None, Poster(LOOPBACK)).processor()  # type: ignore[arg-type,return-value]
    registry = Registry([DRILL, deliver])
    async with open_api(database_url, redis_url, tmp_path, registry=registry, pool_size=8) as opened:
        opened.app.router.routes.extend(pages_routes(pages_deps(opened.deps)))
        yield opened


@pytest.fixture
async def ours(api: Api, world: World) -> Estate:
    return await furnish(api, world.ours, "ours")


@pytest.fixture
async def theirs(api: Api, world: World) -> Estate:
    return await furnish(api, world.theirs, "theirs")
