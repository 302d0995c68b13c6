"""An API as it is served: the product's server on a socket, over the test's own database and Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx

from lingxi.api.album_memory import AlbumMemory
from lingxi.api.app import create_app, create_monitoring_app
from lingxi.api.deps import ApiConfig, ApiDeps
from lingxi.api.limits import Limits
from lingxi.api.server import create_server, listen
from lingxi.broker.client import api_client
from lingxi.broker.hints import Hints
from lingxi.db.session import connect, create_pool
from lingxi.processors.demo_drill import DRILL
from lingxi.processors.registry import Registry
from lingxi.services.tokens import create_token
from lingxi.services.valid_grants import valid_grants
from lingxi.services.workspaces import create_workspace
from lingxi.storage import Storage, open_storage
from lingxi.stream.hub import Hub, HubConfig
from lingxi.stream.reader import PostgresReader
from lingxi.stream.tokens import StreamTokens
from tests.support.least_rights import as_app

COMMAND_SECONDS = 3.0
SECRET = b"a secret of the tests, 32 bytes at least"
QUICK_LIMITS = Limits(max_body_bytes=16 * 1024 * 1024, max_object_bytes=1024 * 1024, body_timeout_seconds=0.5)


@dataclass
class Api:
    """A running API. `deps` can be looked into; `url` ends without a slash."""

    url: str
    deps: ApiDeps
    monitoring_url: str = ""
    app: Any = None

    def client(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        """A client at `/api/v1/`, with the token if given."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return httpx.AsyncClient(base_url=self.url + "/api/v1/", headers=headers, timeout=30)


@dataclass
class Tenant:
    """A workspace with a token of each role."""

    workspace_id: UUID
    viewer: str
    editor: str
    admin: str


@dataclass
class World:
    """What the tests' database holds before anything happened."""

    ours: Tenant
    theirs: Tenant
    operator: str
    counts: dict[str, int] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def open_api(
    database_url: str,
    redis_url: str,
    folder: Path,
    *,
    limits: Limits = QUICK_LIMITS,
    pool_size: int = 5,
    registry: Registry | None = None,
    storage: Storage | None = None,
    **config: Any,
) -> AsyncIterator[Api]:
    """Serve an API, with its monitoring app on a second port."""
    database_url, redis_url = as_app(database_url), as_app(redis_url)
    pool = await create_pool(
        database_url, name="test-api", min_size=0, max_size=pool_size, command_timeout_seconds=COMMAND_SECONDS
    )
    redis = api_client(redis_url)
    hub = Hub(*_readers(database_url), check_access=_checker(pool), config=HubConfig(poll_seconds=0.05))
    hub.start()
    hints = Hints(redis)
    deps = ApiDeps(
        config=ApiConfig(secret_keys=(SECRET,), limits=limits, **config),
        pool=pool,
        redis=redis,
        hints=hints,
        registry=registry or Registry([DRILL]),
        storage=storage or open_storage(f"file://{folder}/objects"),
        hub=hub,
        stream_tokens=StreamTokens([SECRET]),
        albums=AlbumMemory(pool),
    )
    async with contextlib.AsyncExitStack() as stack:
        app = create_app(deps)
        url = await stack.enter_async_context(_serve(app))
        monitoring_url = await stack.enter_async_context(_serve(create_monitoring_app(deps)))
        yield Api(url, deps, monitoring_url, app)
        await hub.close()
    await hints.close()
    await redis.aclose()
    await deps.storage.close()
    pool.terminate()


def _readers(database_url: str) -> tuple[PostgresReader, PostgresReader]:
    return PostgresReader(lambda: connect(database_url, name="test-hub")), PostgresReader(
        lambda: connect(database_url, name="test-hub")
    )


def _checker(pool: Any) -> Any:
    async def check(grants: Sequence[Hashable]) -> set[Hashable]:
        async with pool.acquire() as connection:
            return await valid_grants(connection, grants)

    return check


@contextlib.asynccontextmanager
async def _serve(app: Any) -> AsyncIterator[str]:
    socket = listen("127.0.0.1", 0)
    server = create_server(app, grace_seconds=1)
    task = asyncio.create_task(server.serve(sockets=[socket]))
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def make_world(pool: asyncpg.Pool[asyncpg.Record]) -> World:
    """Two workspaces with tokens, and an operator."""
    async with pool.acquire() as connection:
        ours, theirs = await _tenant(connection, "ours"), await _tenant(connection, "theirs")
        _, operator = await create_token(connection, workspace_id=None, role="operator", name="operator")
    return World(ours, theirs, operator)


async def _tenant(connection: Any, name: str) -> Tenant:
    workspace = await create_workspace(connection, name)
    assert workspace is not None
    secrets = []
    for role in ("viewer", "editor", "admin"):
        _, secret = await create_token(connection, workspace_id=workspace.id, role=role, name=role)
        secrets.append(secret)
    return Tenant(workspace.id, *secrets)


async def row_counts(pool: asyncpg.Pool[asyncpg.Record]) -> dict[str, int]:
    """How many rows each table of the product holds."""
    async with pool.acquire() as connection:
        tables = await connection.fetch(
            "select tablename from pg_tables where schemaname = 'public' and tablename <> 'alembic_version'"
        )
        return {
            row["tablename"]: await connection.fetchval(f'select count(*) from "{row["tablename"]}"')
            for row in tables
        }


def batch(count: int = 2, **more: Any) -> dict[str, Any]:
    """A submission of drills."""
    items = [{"ref": f"r{n}", "input": {"durationMs": n}} for n in range(count)]
    return {"type": "demo:drill", "items": items, **more}


def changed(limits: Limits, **values: Any) -> Limits:
    """`limits` with other values."""
    return replace(limits, **values)
