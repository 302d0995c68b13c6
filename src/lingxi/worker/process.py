"""One worker process: the consumers of its queues, the thread that keeps their leases, and loops that run beside them."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from lingxi.broker.canaries import Canaries
from lingxi.broker.client import worker_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.ending import end_tasks
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.hints import Hints
from lingxi.broker.stats import FinishedCounts
from lingxi.broker.totals import Totals
from lingxi.observability.logging import get_logger
from lingxi.observability.tallies import Tallies
from lingxi.processors.contract import Processor
from lingxi.processors.publish import PublishDeps
from lingxi.processors.scratch import Scratch
from lingxi.worker.config import WorkerConfig
from lingxi.worker.consumer import Consumer, Surroundings
from lingxi.worker.lease import LeaseKeeper
from lingxi.worker.ledger import Ledger
from lingxi.worker.outage import Outage
from lingxi.worker.presence import EXIT_STOPPED_BY_HAND, Reporter
from lingxi.worker.store import Store
from lingxi.worker.tools import WorkerTools
from lingxi.worker.ward import Ward

_CHECK_SECONDS = 1.0
_TELL_SECONDS = 2.0
_MOST_ABANDONED = 20
_log = get_logger("worker")


class Loop(Protocol):
    """What runs beside the consumers and stops before them: the sweep."""

    async def run(self) -> None:
        """Until `stop`; survives errors."""

    def stop(self) -> None:
        """Begin nothing more; `run` returns soon."""


class WorkerProcess:
    """`run()` serves until `ask_to_stop()`."""

    def __init__(
        self,
        config: WorkerConfig,
        processors: Mapping[str, Processor[Any]],
        *,
        storage: Any = None,
        publish: PublishDeps | None = None,
        beside: Sequence[Loop] = (),
        tallies: Tallies | None = None,
        end_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._config = config
        self._processors = processors
        self._storage = storage
        self._publish = publish
        self._beside = beside
        self._tallies = tallies or Tallies()
        self._end_process = end_process
        self._stop = asyncio.Event()
        self._keeper: LeaseKeeper | None = None
        self._failed = False
        self._stopped_by_hand = False
        self._outages = Outage("postgres"), Outage("redis")
        self.consumers: list[Consumer] = []

    @property
    def abandoned(self) -> int:
        """Processors that were given up on, and whose code still runs here."""
        return sum(consumer.executor.abandoned for consumer in self.consumers if consumer.executor)

    @property
    def away(self) -> list[str]:
        """Of `postgres` and `redis`, those that cannot serve now."""
        return [outage.server for outage in self._outages if outage.lasts]

    def ask_to_stop(self) -> None:
        """Stop in order; from the event loop."""
        self._stop.set()

    def expect_end(self) -> None:
        """A stop was asked: end hard when it takes too long, whatever the event loop does. Safe in a signal handler."""
        if self._keeper is not None:
            self._keeper.expect_end_within(self._config.longest_stop_seconds)

    def _stop_by_hand(self) -> None:
        """An operator wants it: as after a signal."""
        self._stopped_by_hand = True
        self.expect_end()
        self._stop.set()

    async def run(self) -> int:
        """Serve until a stop is asked; the exit code. Waits for PostgreSQL and Redis as long as it takes."""
        postgres, redis = self._outages
        client = worker_client(self._config.redis_url)
        store = await Store.open(self._config.database_url, self._config.name, postgres)
        hints = Hints(client)
        scratch = Scratch(self._config.scratch_root, self._config.scratch_owner)
        _log.debug("scratch_folder_made", folder=str(scratch.folder))
        around = Surroundings(
            config=self._config,
            store=store,
            connections=connection_factory(self._config.redis_url),
            heartbeats=Heartbeats(client),
            canaries=Canaries(client),
            hints=hints,
            stats=FinishedCounts(client),
            tallies=self._tallies,
            tools=WorkerTools(store, hints, self._storage, scratch),
            postgres=postgres,
            redis=redis,
            ward=Ward(),
            publish=self._publish,
        )
        self.consumers = [Consumer(name, self._processors.get(name), around) for name in self._config.queues]
        ledgers = [consumer.ledger for consumer in self.consumers]
        self._keeper = LeaseKeeper(self._config, ledgers, self._lost_from_thread(), self._end_process)
        reporter = Reporter(self._config, store, ledgers, self._stop_by_hand)
        try:
            await self._serve(self._keeper, Totals(client), reporter)
        finally:
            await hints.close()
            await self._close(client)
            await store.close()
            scratch.close()
        _log.info(
            "worker_stopped", worker=self._config.name, attempts=self._attempts(), photos=self._photos()
        )
        if self._failed:
            return 1
        return EXIT_STOPPED_BY_HAND if self._stopped_by_hand else 0

    def _attempts(self) -> dict[str, int]:
        """What became of attempts here: accepted, already, superseded (fenced), dropped, invalid."""
        return dict(sum((consumer.finisher.counts for consumer in self.consumers), Counter()))

    def _photos(self) -> dict[str, int]:
        """What became of jobs of photos here."""
        return dict(sum((one.photos.counts for one in self.consumers if one.photos), Counter()))

    async def _serve(self, keeper: LeaseKeeper, totals: Totals, reporter: Reporter) -> None:
        keeper.start()
        for consumer in self.consumers:
            consumer.start()
        beside = [asyncio.create_task(loop.run()) for loop in self._beside]
        _log.info("worker_started", worker=self._config.name, queues=list(self._config.queues))
        watch = asyncio.create_task(self._watch())
        telling = asyncio.create_task(self._tell(totals))
        reporting = asyncio.create_task(reporter.run())
        await self._stop.wait()
        watch.cancel()
        reporting.cancel()
        _log.info("worker_stopping", worker=self._config.name, grace_seconds=self._config.grace_seconds)
        keeper.expect_end_within(self._config.longest_stop_seconds)
        for loop in self._beside:
            loop.stop()
        await asyncio.gather(reporter.stopping(), *(consumer.stop() for consumer in self.consumers))
        await _wait_or_cancel(beside, self._config.flush_seconds)
        await end_tasks(telling)
        await _wait_or_cancel([asyncio.create_task(totals.tell(self._tallies))], self._config.flush_seconds)
        await reporter.ended()
        keeper.stop()

    async def _watch(self) -> None:
        """A process full of code that ignores its cancellation is worth less than a new one."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            if self.abandoned >= _MOST_ABANDONED:
                _log.error("worker_worn_out", abandoned=self.abandoned)
                self._failed = True
                self._stop.set()

    async def _tell(self, totals: Totals) -> None:
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            await totals.tell(self._tallies)

    def _lost_from_thread(self) -> Any:
        loop = asyncio.get_running_loop()
        executors = {consumer.ledger: consumer.executor for consumer in self.consumers}

        def lost(ledger: Ledger, fences: list[int]) -> None:
            executor = executors[ledger]
            if executor is not None:
                loop.call_soon_threadsafe(executor.lost_leases, fences)

        return lost

    async def _close(self, client: Any) -> None:
        try:
            await client.aclose()
        except Exception as error:
            _log.warning("close_failed", what="redis", reason=str(error)[:300])


async def _wait_or_cancel(tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
        await end_tasks(*tasks)
