"""One queue's pipeline, a job at a time in name and batches in truth:

    intake → claim → run → finish → settle ─┐
       ▲ take                    ack, fetch │
       └────────────── jobs ◀───────────────┘

Each arrow is a stage that takes all that is ready. A job is acknowledged only after the commit of what became of its item.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lingxi.broker.canaries import Canaries
from lingxi.broker.connection import ConnectionFactory
from lingxi.broker.ending import end_tasks
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.hints import Hints
from lingxi.broker.queue import BullQueue, Delivery
from lingxi.broker.stats import FinishedCounts
from lingxi.names import PHOTO_QUEUE
from lingxi.observability.logging import get_logger
from lingxi.observability.tallies import Tallies
from lingxi.processors.contract import Processor, Tools
from lingxi.processors.publish import PublishDeps
from lingxi.worker.claimer import Claimer
from lingxi.worker.config import WorkerConfig
from lingxi.worker.executor import Executor
from lingxi.worker.finisher import Finisher
from lingxi.worker.intake import Intake
from lingxi.worker.ledger import Ledger, Running
from lingxi.worker.outage import Outage
from lingxi.worker.photo_jobs import PhotoJobs
from lingxi.worker.settler import Fate, Later, Settler
from lingxi.worker.stage import Stage
from lingxi.worker.store import Store
from lingxi.worker.ward import Ward

SLOTS_WITHOUT_PROCESSOR = 2
_TELL_SECONDS = 0.5
_log = get_logger("worker.consumer")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all consumers of a process share."""

    config: WorkerConfig
    store: Store
    connections: ConnectionFactory
    heartbeats: Heartbeats
    canaries: Canaries
    hints: Hints
    stats: FinishedCounts
    tallies: Tallies
    tools: Tools
    postgres: Outage
    redis: Outage
    ward: Ward
    publish: PublishDeps | None  # what jobs of photos need; None: there are none here


class Consumer:
    """Serves one queue. Without a processor it only keeps the queue alive: jobs there are foreign or of a newer version."""

    def __init__(self, queue: str, processor: Processor[Any] | None, around: Surroundings) -> None:
        config = around.config
        self._around = around
        slots = config.concurrency.get(queue) or (
            processor.concurrency if processor else SLOTS_WITHOUT_PROCESSOR
        )
        self.ledger = ledger = Ledger(queue, slots)
        self._queue = BullQueue(
            queue,
            around.connections,
            token=config.name,
            lock_ms=int(config.lock_seconds * 1000),
            stalled_check_ms=int(config.stalled_check_seconds * 1000),
        )
        self.executor = (
            Executor(
                processor,
                ledger,
                around.tools,
                self._settled,
                around.ward,
                cancel_seconds=config.cancel_seconds,
                environment=config.child_environment,
            )
            if processor
            else None
        )
        self.finisher = Finisher(
            ledger, around.store, around.hints, around.stats, around.tallies, self._committed
        )
        self.photos = photos = self._photo_jobs(around)
        if photos is not None:
            around.tallies.follow("lingxi_photo_attempts_total", lambda: photos.counts)
        self._claimer = Claimer(
            config,
            ledger,
            around.store,
            processor,
            self.executor,
            around.ward,
            self._settle,
            self._again,
            self.photos,
        )
        settler = Settler(ledger, self._queue, around.redis, self._arrived)
        self._intake = Intake(
            config, ledger, self._queue, around.heartbeats, around.canaries, around.redis, self._arrived
        )
        outages = (around.postgres, around.redis)
        self._claims: Stage[Delivery] = Stage("claim", self._claimer.work, *outages)
        self._endings: Stage[Running] = Stage("finish", self.finisher.work, *outages)
        self._fates: Stage[tuple[Fate | Later, Delivery]] = Stage("settle", settler.work, *outages)
        self._tasks: list[asyncio.Task[None]] = []
        self._intake_task: asyncio.Task[None] | None = None

    def _photo_jobs(self, around: Surroundings) -> PhotoJobs | None:
        if around.publish is None or self.ledger.queue != PHOTO_QUEUE:
            return None
        return PhotoJobs(
            around.config,
            self.ledger,
            around.store,
            around.hints,
            around.postgres,
            around.publish,
            lambda fate, delivery: self._fates.put([(fate, delivery)]),
            self.finisher.count,
            around.tallies,
        )

    def start(self) -> None:
        """Begin to serve, on the running event loop."""
        create = asyncio.get_running_loop().create_task
        loops = [self._claims.run(), self._endings.run(), self._fates.run(), self._tell()]
        if self.executor is not None:
            loops.append(self.executor.watch())
        if self.photos is not None:
            loops.append(self.photos.watch())
        self._tasks = [create(loop) for loop in loops]
        self._intake_task = create(self._intake.run())

    async def stop(self) -> None:
        """Take nothing new; let what runs finish within the grace; give back the rest; close the connections to Redis."""
        config = self._around.config
        self.ledger.stopping = True
        if self._intake_task is not None:
            await end_tasks(self._intake_task)
        await self._give_back(self._claims.take_back())
        await asyncio.gather(
            *(part.stop(config.grace_seconds) for part in (self.executor, self.photos) if part is not None)
        )
        try:
            async with asyncio.timeout(config.flush_seconds):
                for stage in (self._claims, self._endings, self._fates):
                    await stage.wait_idle()
                await self.finisher.tell()
        except TimeoutError:
            _log.warning(
                "stopped_with_work_left", queue=self.ledger.queue, attempts=len(self.ledger.attempts)
            )
        await end_tasks(*self._tasks)
        await self._give_back(list(self.ledger.deliveries.values()))
        await self._close()

    # ── from stage to stage ──────────────────────────────────────────────────────────────────────────────
    def _arrived(self, deliveries: Sequence[Delivery]) -> None:
        self.ledger.took(deliveries)
        self._claims.put(deliveries)

    def _settled(self, running: Running) -> None:
        self._endings.put([running])

    def _committed(self, runnings: Sequence[Running]) -> None:
        self._fates.put([(Fate.DONE, running.delivery) for running in runnings])

    def _settle(self, fate: Fate | Later, deliveries: Sequence[Delivery]) -> None:
        self._fates.put([(fate, delivery) for delivery in deliveries])

    def _again(self, delivery: Delivery) -> None:
        self._claims.put([delivery])

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            await self.finisher.tell()

    async def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        try:
            async with asyncio.timeout(self._around.config.flush_seconds):
                await self._queue.give_back(deliveries)
            self.ledger.dropped(deliveries)
            _log.info("jobs_given_back", queue=self.ledger.queue, count=len(deliveries))
        except Exception as error:  # their locks run out, and somebody else gets them
            _log.warning("jobs_not_given_back", queue=self.ledger.queue, reason=str(error)[:300])

    async def _close(self) -> None:
        try:
            await self._queue.close()
        except Exception as error:
            _log.warning("close_failed", what="queue", queue=self.ledger.queue, reason=str(error)[:300])
