"""The composition root: makes the parts from the settings and hands each what it needs. Nothing else knows all of them.

`run_api`, `run_worker` and `run_dispatcher` serve until SIGTERM or SIGINT and answer an exit code; a second signal ends at once.
"""

import asyncio
import hashlib
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from uuid import UUID

from lingxi import names
from lingxi.api.app import create_app, create_monitoring_app
from lingxi.api.auth import SESSION_COOKIE, Anyone, is_same_origin, session_of, start_session
from lingxi.api.deps import ApiConfig, ApiDeps
from lingxi.api.limits import Limits
from lingxi.api.server import ApiServer, create_server, listen
from lingxi.broker.checks import server_report
from lingxi.broker.client import api_client, worker_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.errors import BrokerUnavailable
from lingxi.broker.hints import HintListener, Hints
from lingxi.broker.marker import WipeMarker
from lingxi.broker.queue import BullQueue
from lingxi.db.query import sql
from lingxi.db.session import Pool, connect, create_pool, is_unavailable, transaction
from lingxi.domain.ids import parse_uuid
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.maintenance.sweeper import Sweeper
from lingxi.observability import failpoints
from lingxi.observability.logging import configure, get_logger
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.outbox.thread import DispatcherThread
from lingxi.processors.demo_drill import DRILL
from lingxi.processors.media_verify import MediaVerify
from lingxi.processors.registry import Registry
from lingxi.services.tokens import still_valid
from lingxi.settings import Settings, SettingsError, child_environment, load_settings
from lingxi.storage import Storage, open_storage
from lingxi.stream.hub import Hub, HubConfig
from lingxi.stream.reader import PostgresReader
from lingxi.stream.tokens import StreamTokens
from lingxi.web.routes import PagesDeps, Session, SignedIn, pages_routes
from lingxi.worker.child import run_worker_process
from lingxi.worker.config import WorkerConfig, worker_name
from lingxi.worker.process import WorkerProcess
from lingxi.worker.shutdown import StopSignals
from lingxi.worker.supervisor import Supervisor, SupervisorConfig

_log = get_logger("bootstrap")
_RETRY_SECONDS = 1.0
_SECRET_FINGERPRINT = "secret_key"  # noqa: S105 - the name of a row

EXIT_REFUSED = 78  # EX_CONFIG: started again it would refuse again


class StartRefused(Exception):
    """The configuration or a server is such that running would do harm; the message says what to mend."""


# ── what all processes do first ──────────────────────────────────────────────────────────────────────────
def prepare(settings: Settings, role: str) -> None:
    """Logging and, in tests, failpoints."""
    configure(settings.log_level, role=role, pid=os.getpid())
    if settings.lingxi_failpoints:
        failpoints.arm(settings.lingxi_failpoints, settings.lingxi_failpoints_dir)


def storage_url(settings: Settings) -> str:
    """STORAGE_URL, or the folder in the data folder."""
    return settings.storage_url or (settings.data_dir / "objects").as_uri()


def secret_keys(settings: Settings) -> tuple[bytes, ...]:
    """The keys that were set, else the one in the data folder, made at the first start."""
    if settings.secret_keys:
        return settings.secret_keys
    path = settings.data_dir / "secret-key"
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"secret-key.{secrets.token_hex(8)}")
    if not path.exists():
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(48))
        with suppress(FileExistsError):  # a process beside us was first: its key holds
            os.link(draft, path)
        draft.unlink()
    return (path.read_text("ascii").strip().encode(),)


def make_registry(settings: Settings, decoders: Decoders, pool: Pool) -> Registry:
    """The processors of this deployment. The API needs them too: they know what an input must look like."""
    verify = MediaVerify(decoders, lambda: pool.acquire(timeout=5), settings.data_dir / "scratch")
    return Registry([DRILL, verify.processor()], settings.deployed_queues)


async def refuse_bad_redis(url: str) -> None:
    """StartRefused when Redis would lose jobs (eviction policy, version, a replica). Away is no reason: it may come."""
    client = api_client(url)
    try:
        report = await server_report(client)
    except BrokerUnavailable as error:
        _log.warning("redis_unavailable_at_start", reason=str(error)[:200])
        return
    finally:
        await client.aclose()
    for note in report.notes:
        _log.info("redis_note", note=note)
    if not report.ok:
        raise StartRefused(" ".join(report.problems))


async def agree_on_secret_key(pool: Pool, keys: Sequence[bytes]) -> None:
    """StartRefused when another API process signs with a key that this one does not know.

    The database remembers a fingerprint of the signing key. Who knows that key may replace it by its own: that is a rotation.
    """
    prints = [hashlib.sha256(b"lingxi secret key\0" + key).hexdigest() for key in keys]
    while True:
        try:
            async with transaction(pool) as connection:
                held = await connection.fetchval(sql("deployment/remember"), _SECRET_FINGERPRINT, prints[0])
                if held in prints[1:]:
                    await connection.execute(sql("deployment/set"), _SECRET_FINGERPRINT, prints[0])
            break
        except Exception as error:
            if not is_unavailable(error) and type(error).__name__ != "UndefinedTableError":
                raise
            await asyncio.sleep(_RETRY_SECONDS)
    if held not in prints:
        raise StartRefused(
            "LINGXI_SECRET_KEY differs from that of the other API processes on this database: give all the same; "
            "to rotate it, give the new and the old one, comma-separated."
        )


async def until_signalled(work: Callable[[asyncio.Event], Any]) -> int:
    """Run `work(stop)` until it ends; the first SIGTERM or SIGINT sets `stop`, a second ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def asked() -> None:
        loop.call_soon_threadsafe(stop.set)

    StopSignals(asked).install()
    try:
        await work(stop)
    except (StartRefused, SettingsError) as refused:
        print(f"lingxi: {refused}", file=sys.stderr)  # noqa: T201 - one plain sentence for who starts it
        return EXIT_REFUSED
    return 0


# ── the API ──────────────────────────────────────────────────────────────────────────────────────────────
async def run_api(settings: Settings) -> int:
    """The API with its dispatcher and its event streams."""
    prepare(settings, "api")
    return await until_signalled(lambda stop: _serve_api(settings, stop))


async def _serve_api(settings: Settings, stop: asyncio.Event) -> None:
    await refuse_bad_redis(settings.redis_url)
    async with AsyncExitStack() as stack:
        sockets = [listen(settings.lingxi_host, settings.lingxi_port)]
        deps = await _api_deps(settings, stack)
        app = create_app(deps)
        app.router.routes.extend(pages_routes(_pages_deps(deps)))
        servers = [(create_server(app, grace_seconds=settings.grace_seconds), sockets)]
        if settings.metrics_bind:
            host, _, port = settings.metrics_bind.rpartition(":")
            monitoring = create_server(create_monitoring_app(deps), grace_seconds=1)
            servers.append((monitoring, [listen(host.strip("[]") or "127.0.0.1", int(port))]))
        dispatcher = _dispatcher_thread(settings, stack)
        _listen_to_hints(settings, deps.hub, dispatcher, stack)
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
        settings.database_url, name="lingxi-api", min_size=0, max_size=settings.database_pool_size
    )
    stack.push_async_callback(_close_pool, pool)
    client = api_client(settings.redis_url)
    stack.push_async_callback(client.aclose)
    hints = Hints(client)
    stack.push_async_callback(hints.close)
    storage: Storage = open_storage(storage_url(settings))
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
                body_timeout_seconds=settings.body_timeout_seconds,
            ),
            serve_monitoring=not settings.metrics_bind,
            queues=settings.deployed_queues,
        ),
        pool=pool,
        redis=client,
        hints=hints,
        registry=make_registry(settings, decoders, pool),
        storage=storage,
        hub=_hub(settings, pool, stack),
        stream_tokens=StreamTokens(keys),
    )


def _hub(settings: Settings, pool: Pool, stack: AsyncExitStack) -> Hub:
    async def open_connection() -> Any:
        return await connect(settings.database_url, name="lingxi-stream", hot=True)

    async def check_access(grants: Sequence[Hashable]) -> set[Hashable]:
        async with pool.acquire(timeout=5) as connection:
            valid = await still_valid(connection, [grant for grant in grants if isinstance(grant, UUID)])
        return set(valid)

    readers = PostgresReader(open_connection), PostgresReader(open_connection)
    for reader in readers:
        stack.push_async_callback(reader.close)
    config = HubConfig(
        poll_seconds=settings.stream_poll_ms / 1000,
        heartbeat_seconds=settings.stream_heartbeat_seconds,
        access_check_seconds=settings.stream_access_check_seconds,
    )
    return Hub(*readers, check_access, config)


def _listen_to_hints(
    settings: Settings, hub: Hub, dispatcher: DispatcherThread, stack: AsyncExitStack
) -> None:
    def heard(channel: str, payload: bytes) -> None:
        match channel:
            case names.HINT_OUTBOX:
                dispatcher.wake()
            case names.HINT_TASKS:
                hub.hint([task_id for text in payload.decode().split(",") if (task_id := parse_uuid(text))])
            case names.HINT_ACCESS:
                hub.hint_access()
            case names.PROGRESS_CHANNEL:
                hub.item_progress(payload)

    def connected() -> None:
        hub.hint_all()
        dispatcher.wake()

    channels = (names.HINT_OUTBOX, names.HINT_TASKS, names.HINT_ACCESS, names.PROGRESS_CHANNEL)
    listener = HintListener(settings.redis_url, channels, heard, connected)
    listener.start()
    stack.push_async_callback(listener.stop)


def _pages_deps(deps: ApiDeps) -> PagesDeps:
    async def sign_in(secret: str) -> Session | None:
        session = await start_session(deps, secret)
        return None if session is None else Session(*session)

    async def who(request: Any) -> SignedIn | None:
        caller: Anyone | None = await session_of(deps, request)
        if caller is None or caller.workspace_id is None:
            return None
        return SignedIn(caller.workspace_id, caller.role)

    return PagesDeps(deps.pool, SESSION_COOKIE, sign_in, who, is_same_origin)


async def _close_pool(pool: Pool) -> None:
    try:
        await asyncio.wait_for(pool.close(), 5)
    except Exception as error:
        _log.warning("close_failed", what="postgres", reason=type(error).__name__)
        pool.terminate()


# ── the dispatcher ───────────────────────────────────────────────────────────────────────────────────────
def dispatcher_config(settings: Settings) -> DispatcherConfig:
    """The dispatcher's part of the settings."""
    return DispatcherConfig(
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        queues=settings.deployed_queues,
        interval_seconds=settings.outbox_dispatch_interval_ms / 1000,
        waiting_limit=settings.queue_waiting_limit,
    )


def _dispatcher_thread(settings: Settings, stack: AsyncExitStack) -> DispatcherThread:
    dispatcher = DispatcherThread(dispatcher_config(settings))
    dispatcher.start()
    return dispatcher


async def run_dispatcher(settings: Settings) -> int:
    """A dispatcher by itself."""
    prepare(settings, "dispatcher")

    async def work(stop: asyncio.Event) -> None:
        await refuse_bad_redis(settings.redis_url)
        dispatcher = Dispatcher(dispatcher_config(settings))
        listener = HintListener(
            settings.redis_url,
            (names.HINT_OUTBOX,),
            lambda channel, payload: dispatcher.wake(),
            dispatcher.wake,
        )
        listener.start()
        running = asyncio.create_task(dispatcher.run())
        await stop.wait()
        dispatcher.stop()
        await running
        await listener.stop()
        _log.info("dispatcher_stopped")

    return await until_signalled(work)


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────
async def run_worker(settings: Settings, processes: int = 1) -> int:
    """The parent of `processes` worker processes. It must be awaited on the main thread: its children die with it."""
    prepare(settings, "supervisor")
    try:
        await refuse_bad_redis(settings.redis_url)
    except StartRefused as refused:
        print(f"lingxi: {refused}", file=sys.stderr)  # noqa: T201
        return EXIT_REFUSED
    parent = str(os.getpid())
    config = SupervisorConfig(
        command=lambda boot: [sys.executable, "-m", "lingxi.bootstrap", boot, parent],
        processes=processes,
        database_url=settings.database_url,
        stop_seconds=worker_config(settings, "").longest_stop_seconds,
        environment=child_environment(**_as_environment(settings)),
    )
    return await Supervisor(config).run()


def _as_environment(settings: Settings) -> dict[str, str]:
    """The settings as a child reads them, options of the command line included."""
    values = settings.model_dump()
    values["lingxi_data_dir"] = settings.data_dir
    return {name: "" if value is None else str(value) for name, value in values.items()}


def worker_config(settings: Settings, name: str) -> WorkerConfig:
    """The worker's part of the settings."""
    return WorkerConfig(
        name=name,
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        queues=settings.served_queues,
        concurrency=settings.concurrency,
        lease_seconds=settings.lease_seconds,
        lease_renew_seconds=settings.lease_renew_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        grace_seconds=settings.grace_seconds,
    )


@asynccontextmanager
async def open_worker(settings: Settings, name: str) -> AsyncIterator[WorkerProcess]:
    """A worker process with its sweep, its decoders and its storage; all closed at the end."""
    async with AsyncExitStack() as stack:
        pool = await create_pool(settings.database_url, name=name, min_size=0, max_size=6)
        stack.push_async_callback(_close_pool, pool)
        client = worker_client(settings.redis_url)
        stack.push_async_callback(client.aclose)
        hints = Hints(client)
        stack.push_async_callback(hints.close)
        storage = open_storage(storage_url(settings))
        stack.push_async_callback(storage.close)
        decoders = Decoders(DecoderConfig())
        stack.push_async_callback(decoders.close)
        connections = connection_factory(settings.redis_url)
        queues = {queue: BullQueue(queue, connections, token=name) for queue in settings.deployed_queues}
        for bull in queues.values():
            stack.push_async_callback(bull.close)
        sweeper = Sweeper(pool, queues, WipeMarker(client), hints, settings.sweep_interval_seconds)
        registry = make_registry(settings, decoders, pool)
        processors = {
            queue: registry.get(queue) for queue in registry.available() if queue in settings.served_queues
        }
        yield WorkerProcess(worker_config(settings, name), processors, storage=storage, beside=[sweeper])


def _worker_child(boot: str, parent_pid: int) -> int:
    settings = load_settings()
    prepare(settings, "worker")
    return run_worker_process(lambda: open_worker(settings, worker_name(boot)), parent_pid=parent_pid)


if __name__ == "__main__":
    sys.exit(_worker_child(sys.argv[1], int(sys.argv[2])))
