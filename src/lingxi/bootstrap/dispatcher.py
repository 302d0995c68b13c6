"""A dispatcher by itself; the API process has one too."""

import asyncio

from lingxi.bootstrap.common import prepare, refuse_bad_redis, until_signalled
from lingxi.observability.logging import get_logger
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.settings import Settings

_log = get_logger("bootstrap.dispatcher")


def dispatcher_config(settings: Settings) -> DispatcherConfig:
    """The dispatcher's part of the settings."""
    return DispatcherConfig(
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        queues=settings.deployed_queues,
        interval_seconds=settings.outbox_dispatch_interval_ms / 1000,
        waiting_limit=settings.queue_waiting_limit,
        canary_interval_seconds=settings.canary_interval_seconds,
    )


async def run_dispatcher(settings: Settings) -> int:
    """A dispatcher by itself."""
    prepare(settings, "dispatcher")

    async def work(stop: asyncio.Event) -> None:
        await refuse_bad_redis(settings.redis_url)
        dispatcher = Dispatcher(dispatcher_config(settings))
        running = asyncio.create_task(dispatcher.run())
        await stop.wait()
        dispatcher.stop()
        await running
        _log.info("dispatcher_stopped")

    return await until_signalled(work)
