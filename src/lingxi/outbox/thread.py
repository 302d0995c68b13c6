"""The dispatcher on a thread and an event loop of its own, for the API process.

So requests and dispatch never wait for each other's turn of a loop.
"""

from __future__ import annotations

import asyncio
import threading

import uvloop

from lingxi.observability.logging import get_logger
from lingxi.outbox.counts import Totals
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig

log = get_logger("outbox.thread")


class DispatcherThread:
    """`start()`, then `stop()`; both from the main thread."""

    def __init__(self, config: DispatcherConfig) -> None:
        self._config = config
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dispatcher: Dispatcher | None = None

    def start(self) -> None:
        """Returns when the loop is there; it need not have reached a server yet."""
        self._thread.start()
        self._started.wait()

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """End after the round that runs; False if it did not end in time (the thread is a daemon)."""
        if self._loop is not None and self._dispatcher is not None and self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._dispatcher.stop)
            except RuntimeError:
                pass  # the loop closed in between
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def totals(self) -> Totals:
        """What the dispatcher counted so far."""
        return self._dispatcher.totals if self._dispatcher is not None else Totals()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def wake(self) -> None:
        """Begin a round now: something was just committed in this process. Safe from any thread."""
        if self._loop is not None and self._dispatcher is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._dispatcher.wake)
            except RuntimeError:
                pass

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except Exception as error:
            log.error("dispatcher_thread_ended", error=f"{type(error).__name__}: {error}")
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._dispatcher = Dispatcher(self._config)
        self._started.set()
        await self._dispatcher.run()
