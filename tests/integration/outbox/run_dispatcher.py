"""A dispatcher as a process, to be killed: run_dispatcher.py DATABASE_URL REDIS_URL FAILPOINTS FOLDER."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from lingxi.observability import failpoints, logging
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig


async def main(database_url: str, redis_url: str, spec: str, folder: str) -> None:
    logging.configure("info")
    failpoints.arm(spec, Path(folder) if folder else None)
    dispatcher = Dispatcher(DispatcherConfig(database_url, redis_url))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, dispatcher.stop)
    await dispatcher.run()


asyncio.run(main(*sys.argv[1:]))
