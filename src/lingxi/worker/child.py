"""The main function of one worker process, under a supervisor or alone."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import uvloop

from lingxi.observability.logging import get_logger
from lingxi.worker.process import WorkerProcess
from lingxi.worker.shutdown import StopSignals, die_with_parent, outlive_parent

EXIT_INTERNAL_ERROR = 70
_log = get_logger("worker")


Opened = Callable[[], AbstractAsyncContextManager[WorkerProcess]]


def run_worker_process(opened: Opened, *, parent_pid: int | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit code (0: stopped in order). `opened()` is entered on the event loop.

    Under a supervisor (`parent_pid`) only SIGTERM counts: a Ctrl-C in a terminal reaches the whole group, and the
    supervisor passes it on. Ends the process itself when some processor ignores its cancellation for ever.
    """
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    abandoned = 0

    async def main() -> int:
        nonlocal abandoned
        async with opened() as process:
            code = await _serve(process, loop, parent_pid)
            abandoned = process.abandoned
            return code

    try:
        code = loop.run_until_complete(main())
    except BaseException as error:  # SystemExit in a background task of a processor lands here
        _log.error("worker_crashed", exc_info=error)
        code, abandoned = EXIT_INTERNAL_ERROR, 1
    if abandoned:  # closing the loop would wait for them
        sys.stderr.flush()
        os._exit(code)
    loop.close()
    return code


async def _serve(process: WorkerProcess, loop: asyncio.AbstractEventLoop, parent_pid: int | None) -> int:
    def first() -> None:
        outlive_parent()
        process.expect_end()
        loop.call_soon_threadsafe(process.ask_to_stop)

    if parent_pid is None:
        StopSignals(first).install()
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        StopSignals(first, numbers=(signal.SIGTERM,), echo_seconds=1.0).install()
        die_with_parent(parent_pid)
    return await process.run()
