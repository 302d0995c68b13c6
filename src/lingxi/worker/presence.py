"""At each heartbeat a worker process tells PostgreSQL that it is there, and hears whether it should be quiet or stop."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence

from lingxi import __version__
from lingxi.observability.logging import get_logger
from lingxi.services.worker_processes import Presence, State, Wanted, forget_worker, tell_of_worker
from lingxi.worker.config import WorkerConfig
from lingxi.worker.ledger import Ledger
from lingxi.worker.store import Store

EXIT_STOPPED_BY_HAND = 64
"""Of a process that an operator has stopped: its supervisor starts no other in its place."""
_LAST_SECONDS = 1.0
_log = get_logger("worker.presence")


class Reporter:
    """`run()` until it is cancelled. `stop()` is called when an operator wants that."""

    def __init__(
        self, config: WorkerConfig, store: Store, ledgers: Sequence[Ledger], stop: Callable[[], None]
    ) -> None:
        self._config, self._store, self._ledgers, self._stop = config, store, ledgers, stop
        self._boot = config.scratch_owner
        self._state: State = "working"

    async def run(self) -> None:
        """Tells at once, and at every heartbeat. While PostgreSQL is away nothing is told, and all goes on as it was."""
        while True:
            try:
                self._heed(await self._tell())
            except Exception as error:
                _log.debug("presence_not_told", reason=str(error)[:200] or type(error).__name__)
            await asyncio.sleep(self._config.heartbeat_seconds)

    async def stopping(self) -> None:
        """The process stops now, and says so."""
        self._state = "stopping"
        await self._within(self._tell())

    async def ended(self) -> None:
        """The process has nothing left: its row goes."""

        async def forget() -> None:
            async with self._store.connection() as connection:
                await forget_worker(connection, self._boot)

        await self._within(forget())

    async def _within(self, telling: Awaitable[object]) -> None:
        """A row that is wrong for a while is no reason to stop later."""
        try:
            await asyncio.wait_for(telling, _LAST_SECONDS)
        except Exception as error:
            _log.debug("presence_not_told", reason=str(error)[:200] or type(error).__name__)

    def _heed(self, wanted: Wanted | None) -> None:
        if wanted == "stop":
            _log.info("worker_stop_wanted", worker=self._config.name)
            self._stop()
            return
        quiet = wanted == "quiet"
        if quiet != (self._state == "quiet"):
            _log.info("worker_quiet" if quiet else "worker_works_again", worker=self._config.name)
        self._state = "quiet" if quiet else "working"
        for ledger in self._ledgers:
            ledger.be_quiet(quiet)

    async def _tell(self) -> Wanted | None:
        running = sum(len(ledger.attempts) + len(ledger.photos) for ledger in self._ledgers)
        presence = Presence(
            self._boot, self._config.name, socket.gethostname(), os.getpid(), __version__,
            self._config.queues, running, self._state,
        )  # fmt: skip
        async with self._store.connection() as connection:
            return await tell_of_worker(connection, presence)
