"""The API process: HTTP, event streams, pages, and the dispatcher on a thread of its own."""

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from lingxi import names
from lingxi.api.album_memory import AlbumMemory
from lingxi.api.app import create_app, create_monitoring_app
from lingxi.api.deps import ApiConfig, ApiDeps
from lingxi.api.limits import Limits
from lingxi.api.server import ApiServer, create_server, listen
from lingxi.bootstrap.common import (
    StartRefused,
    close_pool,
    make_registry,
    make_storage,
    prepare,
    refuse_bad_redis,
    retention_of,
    secret_keys,
    storage_url,
    until_signalled,
)
from lingxi.bootstrap.dispatcher import dispatcher_config
from lingxi.bootstrap.pages import pages_deps
from lingxi.broker.client import RedisClient, api_client
from lingxi.broker.hints import HintListener, Hints
from lingxi.broker.totals import Totals
from lingxi.db.session import Connection, Pool, connect, create_pool, is_unavailable, transaction
from lingxi.domain.ids import parse_uuid
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.observability import tracing
from lingxi.observability.logging import get_logger
from lingxi.observability.tallies import Tallies
from lingxi.outbox.thread import DispatcherThread
from lingxi.processors.outgoing.addresses import AddressRule
from lingxi.services.quotas import Limits as WorkspaceLimits
from lingxi.services.record_first_frames import record_first_frames
from lingxi.services.remember_trace import find_traces
from lingxi.services.secret_keys import agree_on_key
from lingxi.services.valid_grants import valid_grants
from lingxi.settings import Settings
from lingxi.storage import Storage
from lingxi.stream.hub import Hub, HubConfig
from lingxi.stream.reader import PostgresReader
from lingxi.stream.tokens import StreamTokens
from lingxi.web.routes import pages_routes

_log = get_logger("bootstrap.api")
_RETRY_SECONDS = 1.0
_COMMAND_TIMEOUT_SECONDS = 10.0  # a client that waits longer has given up: a hanging PostgreSQL is a 503
# A first frame that comes later than this after the commit is that of a viewer who was not there before.
_WATCHED_SECONDS = 60.0


async def run_api(settings: Settings) -> int:
    """The API with its dispatcher and its event streams."""
    prepare(settings, "api")
    return await until_signalled(lambda stop: _serve_api(settings, stop))


def _disks(settings: Settings) -> dict[str, Path]:
    """What this process writes to: the data folder, and the storage where that is a folder."""
    storage = urlsplit(storage_url(settings))
    disks = {"data": settings.data_dir}
    return disks | {"storage": Path(unquote(storage.path))} if storage.scheme == "file" else disks


async def _serve_api(settings: Settings, stop: asyncio.Event) -> None:
    await refuse_bad_redis(settings.redis_url)
    async with AsyncExitStack() as stack:
        sockets = [listen(settings.lingxi_host, settings.lingxi_port)]
        deps = await _api_deps(settings, stack)
        app = create_app(deps)
        app.router.routes.extend(pages_routes(pages_deps(deps)))
        proxies = [str(network) for network in settings.trusted_proxies]
        server = create_server(app, grace_seconds=settings.grace_seconds, trusted_proxies=proxies)
        servers = [(server, sockets)]
        if settings.metrics_bind:
            host, _, port = settings.metrics_bind.rpartition(":")
            monitoring = create_server(create_monitoring_app(deps), grace_seconds=1)
            servers.append((monitoring, [listen(host.strip("[]") or "127.0.0.1", int(port))]))
        dispatcher = DispatcherThread(dispatcher_config(settings))
        dispatcher.start()
        _listen_to_hints(settings, deps, dispatcher, stack)
        deps.hub.start()
        _log.info("api_started", address="{}:{}".format(*sockets[0].getsockname()[:2]))
        await _serve_until(stop, servers, deps, dispatcher)
    _log.info("api_stopped")


async def _serve_until(
    stop: asyncio.Event, servers: list[tuple[ApiServer, Any]], deps: ApiDeps, dispatcher: DispatcherThread
) -> None:
    """Serve until the stop. Streams never end by themselves and the server would wait for them: they are told first."""
    serving = [asyncio.create_task(server.serve(sockets=sockets)) for server, sockets in servers]
    stopped = asyncio.create_task(stop.wait())
    agreed = asyncio.create_task(agree_on_secret_key(deps.pool, deps.config.secret_keys))
    try:
        waiting: set[asyncio.Task[Any]] = {stopped, *serving, agreed}
        while not stopped.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a server that ended or a key that differs raises here
            if any(task in done for task in serving):
                break
    finally:
        agreed.cancel()
        stopped.cancel()
        await deps.hub.close()
        for server, _ in servers:
            server.should_exit = True
        await asyncio.gather(*serving, return_exceptions=True)
        if not await asyncio.to_thread(dispatcher.stop):
            _log.warning("dispatcher_still_busy")


async def _api_deps(settings: Settings, stack: AsyncExitStack) -> ApiDeps:
    pool = await create_pool(
        settings.database_url,
        name="lingxi-api",
        min_size=0,
        max_size=settings.database_pool_size,
        command_timeout_seconds=_COMMAND_TIMEOUT_SECONDS,
    )
    stack.push_async_callback(close_pool, pool)
    client = api_client(settings.redis_url)
    stack.push_async_callback(client.aclose)
    hints = Hints(client)
    stack.push_async_callback(hints.close)
    storage: Storage = make_storage(settings)
    stack.push_async_callback(storage.close)
    decoders = Decoders(DecoderConfig())  # starts no process until it is asked to decode
    stack.push_async_callback(decoders.close)
    keys = secret_keys(settings)
    return ApiDeps(
        config=ApiConfig(
            secret_keys=keys,
            allowed_hosts=("localhost", "127.0.0.1", "::1", settings.lingxi_host, *settings.allowed_hosts),
            limits=Limits(
                max_body_bytes=settings.max_body_bytes,
                max_object_bytes=settings.max_object_bytes,
                max_photo_bytes=settings.max_photo_bytes,
                max_photos=settings.max_photos_per_upload,
                max_upload_bytes=settings.max_upload_bytes,
                body_timeout_seconds=settings.body_timeout_seconds,
            ),
            share_requests_per_minute=settings.share_requests_per_minute,
            share_exchanges_per_minute=settings.share_exchanges_per_minute,
            serve_monitoring=not settings.metrics_bind,
            queues=settings.deployed_queues,
            disks=_disks(settings),
            workspace_limits=WorkspaceLimits(
                settings.workspace_requests_per_minute,
                settings.workspace_open_items,
                settings.workspace_stored_bytes,
            ),
            webhook_rule=AddressRule(settings.webhook_networks),
            retention=retention_of(settings),
        ),
        pool=pool,
        redis=client,
        hints=hints,
        registry=make_registry(settings, decoders, pool, storage),
        storage=storage,
        hub=_hub(settings, pool, client, stack),
        stream_tokens=StreamTokens(keys),
        albums=AlbumMemory(pool),
    )


def _hub(settings: Settings, pool: Pool, client: RedisClient, stack: AsyncExitStack) -> Hub:
    tallies, totals = Tallies(), Totals(client)

    async def open_connection() -> Any:
        return await connect(settings.database_url, name="lingxi-stream", hot=True)

    async def check_access(grants: Sequence[Hashable]) -> set[Hashable]:
        async with pool.acquire(timeout=5) as connection:
            return await valid_grants(connection, grants)

    async def write_first_frames(times: Mapping[UUID, datetime]) -> set[UUID]:
        async with pool.acquire(timeout=5) as connection:
            after = await record_first_frames(connection, times)
            if tracing.on():
                await _trace_first_frames(connection, times, after)
        for seconds in after.values():
            if seconds is not None and seconds < _WATCHED_SECONDS:
                tallies.observe("lingxi_photo_frame_seconds", seconds=seconds)
        await totals.tell(tallies)
        return set(after)

    async def traces_of(task_ids: Sequence[UUID]) -> Mapping[UUID, str]:
        async with pool.acquire(timeout=5) as connection:
            return await find_traces(connection, task_ids)

    readers = PostgresReader(open_connection), PostgresReader(open_connection)
    for reader in readers:
        stack.push_async_callback(reader.close)
    config = HubConfig(
        poll_seconds=settings.stream_poll_ms / 1000,
        heartbeat_seconds=settings.stream_heartbeat_seconds,
        access_check_seconds=settings.stream_access_check_seconds,
        streams_per_grant=settings.streams_per_grant,
        streams_per_address=settings.streams_per_address,
    )
    return Hub(*readers, check_access, config, write_first_frames=write_first_frames, find_traces=traces_of)


async def _trace_first_frames(
    connection: Connection, times: Mapping[UUID, datetime], after: Mapping[UUID, float | None]
) -> None:
    """The first frame of a photo (`after`: seconds after its commit) is the end of the trace of its upload."""
    first = [photo_id for photo_id, seconds in after.items() if seconds is not None]
    for photo_id, parent in (await find_traces(connection, first)).items():
        at_ns = int(times[photo_id].timestamp() * 1e9)
        tracing.end(tracing.begin("frame", parent, at_ns=at_ns, photo=photo_id))


def _listen_to_hints(
    settings: Settings, deps: ApiDeps, dispatcher: DispatcherThread, stack: AsyncExitStack
) -> None:
    hub, albums = deps.hub, deps.albums

    def heard(channel: str, payload: bytes) -> None:
        match channel:
            case names.HINT_OUTBOX:
                dispatcher.wake()
            case names.HINT_TASKS:
                hub.hint(_ids(payload))
            case names.HINT_ALBUMS:
                hub.hint_albums(_ids(payload))
                albums.doubt(_ids(payload))
            case names.HINT_ACCESS:
                hub.hint_access()
                albums.doubt_access()
            case names.PROGRESS_CHANNEL:
                hub.item_progress(payload)

    def connected() -> None:
        hub.hint_all()
        albums.doubt_all()
        dispatcher.wake()

    channels = (
        names.HINT_OUTBOX, names.HINT_TASKS, names.HINT_ALBUMS, names.HINT_ACCESS, names.PROGRESS_CHANNEL,
    )  # fmt: skip
    listener = HintListener(settings.redis_url, channels, heard, connected)
    listener.start()
    stack.push_async_callback(listener.stop)


def _ids(payload: bytes) -> list[UUID]:
    """The ids of a hint; nonsense is dropped."""
    return [one for text in payload.decode("ascii", "replace").split(",") if (one := parse_uuid(text))]


async def agree_on_secret_key(pool: Pool, keys: Sequence[bytes]) -> None:
    """StartRefused when the deployment signs with a key that this process does not know. While PostgreSQL is away it waits."""
    while True:
        try:
            async with transaction(pool) as connection:
                agreed = await agree_on_key(connection, keys)
            break
        except Exception as error:
            if not is_unavailable(error) and type(error).__name__ != "UndefinedTableError":
                raise
            await asyncio.sleep(_RETRY_SECONDS)
    if not agreed:
        raise StartRefused(
            "LINGXI_SECRET_KEY differs from that of the other API processes on this database: give all the same; "
            "to rotate it, give the new and the old one, comma-separated."
        )
