"""Worker processes: a parent that watches, children that work and sweep."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from lingxi.bootstrap.common import (
    EXIT_REFUSED,
    StartRefused,
    close_pool,
    collector_config,
    make_registry,
    make_storage,
    prepare,
    publish_deps,
    refuse_bad_redis,
    retention_of,
    scratch_root,
)
from lingxi.broker.client import worker_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.hints import Hints
from lingxi.broker.marker import WipeMarker
from lingxi.broker.queue import BullQueue
from lingxi.db.session import create_pool
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.maintenance.invariant_watch import InvariantWatch
from lingxi.maintenance.object_collector import ObjectCollector
from lingxi.maintenance.photo_sweep import PhotoSweeper
from lingxi.maintenance.pruner import Pruner
from lingxi.maintenance.queue_holder import QueueHolder
from lingxi.maintenance.session_watch import SessionWatch
from lingxi.maintenance.sweeper import Sweeper
from lingxi.names import PHOTO_QUEUE
from lingxi.observability.logging import say_of_process
from lingxi.observability.tallies import Tallies
from lingxi.processors.scratch import ScratchSweep
from lingxi.settings import Settings, child_environment, load_settings, processor_environment
from lingxi.worker.child import run_worker_process
from lingxi.worker.config import WorkerConfig, worker_name
from lingxi.worker.process import Loop, WorkerProcess
from lingxi.worker.supervisor import Supervisor, SupervisorConfig


async def run_worker(settings: Settings, processes: int = 1) -> int:
    """The parent of `processes` worker processes. It must be awaited on the main thread: its children die with it."""
    prepare(settings, "supervisor")
    try:
        await refuse_bad_redis(settings.redis_url)
        await make_storage(settings).close()
    except StartRefused as refused:
        print(f"lingxi: {refused}", file=sys.stderr)  # noqa: T201
        return EXIT_REFUSED
    parent = str(os.getpid())
    config = SupervisorConfig(
        command=lambda boot: [sys.executable, "-m", "lingxi.bootstrap.worker", boot, parent],
        processes=processes,
        database_url=settings.database_url,
        stop_seconds=worker_config(settings, "").longest_stop_seconds,
        environment=child_environment(**_as_environment(settings)),
        scratch_root=scratch_root(settings),
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
        scratch_root=scratch_root(settings),
        child_environment=processor_environment(),
    )


@asynccontextmanager
async def open_worker(settings: Settings, name: str) -> AsyncIterator[WorkerProcess]:
    """A worker process with its sweep, its decoders and its storage; all closed at the end."""
    async with AsyncExitStack() as stack:
        pool = await create_pool(settings.database_url, name=name, min_size=0, max_size=6, hot=True)
        stack.push_async_callback(close_pool, pool)
        client = worker_client(settings.redis_url)
        stack.push_async_callback(client.aclose)
        hints = Hints(client)
        stack.push_async_callback(hints.close)
        storage = make_storage(settings)
        stack.push_async_callback(storage.close)
        decoders = Decoders(DecoderConfig())
        stack.push_async_callback(decoders.close)
        connections = connection_factory(settings.redis_url)
        queues = {queue: BullQueue(queue, connections, token=name) for queue in settings.deployed_queues}
        for bull in queues.values():
            stack.push_async_callback(bull.close)
        sweeper = Sweeper(pool, queues, WipeMarker(client), hints, settings.sweep_interval_seconds)
        tallies = Tallies()
        tallies.follow("lingxi_item_sweep_total", sweeper.found)
        beside: list[Loop] = [sweeper]
        if (photos := queues.get(PHOTO_QUEUE)) is not None:
            limit = settings.queue_waiting_limit
            photo_sweeper = PhotoSweeper(pool, photos, settings.sweep_interval_seconds, limit)
            tallies.follow("lingxi_photo_sweep_total", photo_sweeper.found)
            beside.append(photo_sweeper)
        watch = InvariantWatch(pool)
        tallies.follow("lingxi_invariant_violations_total", watch.found)
        beside.append(watch)
        beside.append(SessionWatch(pool))
        beside.append(QueueHolder(pool, client, queues, check_seconds=settings.sweep_interval_seconds))
        pruner = Pruner(pool, retention_of(settings))
        tallies.follow("lingxi_pruned_total", pruner.removed)
        beside.append(pruner)
        beside.append(ObjectCollector(pool, storage, collector_config(settings)))
        registry = make_registry(settings, decoders, pool, storage)
        config = worker_config(settings, name)
        processors = {one.name: one for one in registry.processors() if one.name in config.queues}
        beside.append(ScratchSweep(config.scratch_root))
        yield WorkerProcess(
            config,
            processors,
            storage=storage,
            publish=publish_deps(
                settings, decoders, pool, storage, config.scratch_root / config.scratch_owner
            ),
            beside=beside,
            tallies=tallies,
        )


def _worker_child(boot: str, parent_pid: int) -> int:
    settings = load_settings()
    prepare(settings, "worker")
    name = worker_name(boot)
    say_of_process(worker=name)
    return run_worker_process(lambda: open_worker(settings, name), parent_pid=parent_pid)


if __name__ == "__main__":
    sys.exit(_worker_child(sys.argv[1], int(sys.argv[2])))
