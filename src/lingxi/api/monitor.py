"""What Redis and PostgreSQL say about the queues, read side by side, each within bounds: for health and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lingxi.broker.client import RedisClient
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.lock import is_dispatch_locked
from lingxi.broker.overview import queue_counts
from lingxi.broker.queue import QueueCounts
from lingxi.broker.stats import Finished, FinishedCounts
from lingxi.broker.totals import Totals
from lingxi.db.session import Pool
from lingxi.domain.errors import PostgresUnavailable, RedisUnavailable
from lingxi.observability.health import heartbeat_state, queue_status
from lingxi.observability.metrics import COLLECT_SECONDS, Collector, Gauge, Histogram, Metric
from lingxi.observability.tallies import COUNTERS, HISTOGRAMS, counters, distributions
from lingxi.services.read_health import DatabaseView, read_database_view

T = TypeVar("T")
Samples = dict[tuple[str, ...], float]

MISSING_HEARTBEAT = -1.0


@dataclass(frozen=True, slots=True)
class RedisView:
    """By logical queue: BullMQ's counts, what finished within the last hour, seconds since the last heartbeat.

    `dispatcher_held`: a dispatcher has the lock.
    """

    counts: dict[str, QueueCounts]
    finished: dict[str, Finished]
    heartbeats: dict[str, float | None]
    dispatcher_held: bool


class QueueMonitor:
    """Reads the state of a deployment's queues."""

    def __init__(self, pool: Pool, redis: RedisClient, queues: Sequence[str]) -> None:
        self._pool = pool
        self._redis = redis
        self._queues = tuple(queues)
        self._heartbeats = Heartbeats(redis)
        self._finished = FinishedCounts(redis)
        self._totals = Totals(redis)

    async def redis_view(self) -> RedisView:
        """Raises BrokerUnavailable."""
        counts, finished, heartbeats, held = await asyncio.gather(
            queue_counts(self._redis, self._queues),
            self._finished.last_hour(self._queues),
            self._heartbeats.ages(self._queues),
            is_dispatch_locked(self._redis),
        )
        return RedisView(counts, finished, heartbeats, held)

    async def database_view(self) -> DatabaseView:
        """Raises whatever `db.session.is_unavailable` knows."""
        async with self._pool.acquire(timeout=COLLECT_SECONDS) as connection:
            return await read_database_view(connection, self._queues)

    # ── health ───────────────────────────────────────────────────────────────────────────────────────────
    async def health(self) -> dict[str, Any]:
        """The `QueuesHealth` of the document; PostgresUnavailable (50003) or RedisUnavailable (50002)."""
        database, redis = await asyncio.gather(
            within(self.database_view, COLLECT_SECONDS),
            within(self.redis_view, COLLECT_SECONDS),
            return_exceptions=True,
        )
        if isinstance(database, BaseException):
            raise PostgresUnavailable("PostgreSQL cannot serve now; try again.") from database
        if isinstance(redis, BaseException):
            raise RedisUnavailable("Redis cannot serve now; try again.") from redis
        queues = [self._queue_health(queue, redis, database) for queue in self._queues]
        degraded = any(queue["status"] == "degraded" for queue in queues)
        return {
            "status": "degraded" if degraded else "ok",
            "queues": queues,
            "outbox": {"pending": database.outbox_pending, "deadLetters": database.outbox_dead_letters},
        }

    @staticmethod
    def _queue_health(queue: str, redis: RedisView, database: DatabaseView) -> dict[str, Any]:
        counts, finished, age = redis.counts[queue], redis.finished[queue], redis.heartbeats[queue]
        oldest = database.oldest_seconds[queue]
        return {
            "queue": queue,
            "status": queue_status(
                waiting=counts.waiting, oldest_waiting_seconds=oldest, heartbeat_age_seconds=age
            ),
            "counts": {
                "waiting": counts.waiting,
                "active": counts.active,
                "completed": finished.completed,
                "failed": finished.failed,
                "delayed": counts.delayed + database.retrying[queue],
            },
            "oldestWaitingSeconds": oldest,
            "hold": hold.to_wire() if (hold := database.holds.get(queue)) else None,
            "heartbeat": {"state": heartbeat_state(age), "ageSeconds": age},
        }

    # ── metrics ──────────────────────────────────────────────────────────────────────────────────────────
    def collectors(self) -> list[Collector]:
        """One a source, so that what is down takes along only what came from there; `delayed` needs both."""
        redis = _Shared(self.redis_view)
        database = _Shared(self.database_view)

        async def delayed() -> list[Gauge]:
            from_redis, from_database = await asyncio.gather(redis.get(), database.get())
            samples: Samples = {
                (queue, "delayed"): from_redis.counts[queue].delayed + from_database.retrying[queue]
                for queue in self._queues
            }
            return [_jobs(samples)]

        async def redis_gauges() -> list[Gauge]:
            return _redis_gauges(await redis.get())

        async def database_gauges() -> list[Gauge]:
            return _database_gauges(await database.get())

        async def held() -> list[Gauge]:
            holds = (await database.get()).holds
            return [_held({(queue,): float(queue in holds) for queue in self._queues})]

        async def totals() -> list[Metric]:
            return _totals(await self._totals.read())

        async def pool() -> list[Gauge]:
            return [_pool(self._pool)]

        return [
            Collector("redis", redis_gauges),
            Collector("delayed", delayed),
            Collector("postgresql", database_gauges),
            Collector("holds", held),
            Collector("totals", totals),
            Collector("pool", pool),
        ]


async def within(read: Callable[[], Awaitable[T]], seconds: float) -> T:
    """The answer, or TimeoutError after `seconds` even if the reader does not let itself be cancelled."""
    task = asyncio.ensure_future(read())
    done, _ = await asyncio.wait([task], timeout=seconds)
    if not done:
        task.cancel()
        task.add_done_callback(lambda t: t.cancelled() or t.exception())
        raise TimeoutError(f"no answer within {seconds} s")
    return task.result()


class _Shared:
    """One reading for several collectors of the same scrape."""

    def __init__(self, read: Callable[[], Awaitable[Any]]) -> None:
        self._read = read
        self._task: asyncio.Future[Any] | None = None

    async def get(self) -> Any:
        if self._task is None:
            self._task = asyncio.ensure_future(self._read())
            # All who wait may have given up before it fails.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._task)


def _jobs(samples: Samples) -> Gauge:
    return Gauge(
        "lingxi_queue_jobs",
        "Jobs by state. waiting: in Redis; delayed: waits for its next attempt; completed, failed: final within the last hour.",
        ("queue", "state"),
        samples,
    )


def _held(samples: Samples) -> Gauge:
    return Gauge(
        "lingxi_queue_held", "1 while the queue is paused or draining by hand; else 0.", ("queue",), samples
    )


def _totals(fields: dict[str, int]) -> list[Metric]:
    """What the workers, dispatchers and API processes have counted, of all of them together."""
    counted, distributed = counters(fields), distributions(fields)
    return [
        *(
            Gauge(name, COUNTERS[name].help, COUNTERS[name].labels, counted[name], "counter")
            for name in COUNTERS
            if name in counted
        ),
        *(
            Histogram(name, HISTOGRAMS[name].help, HISTOGRAMS[name].labels, distributed[name])
            for name in HISTOGRAMS
            if name in distributed
        ),
    ]


def _pool(pool: Pool) -> Gauge:
    size, idle = pool.get_size(), pool.get_idle_size()
    samples: Samples = {("used",): size - idle, ("idle",): idle, ("free",): pool.get_max_size() - size}
    return Gauge(
        "lingxi_database_pool_connections",
        "This process's connections to PostgreSQL by state; free: places without a connection.",
        ("state",),
        samples,
    )


def _redis_gauges(view: RedisView) -> list[Gauge]:
    jobs: Samples = {}
    for queue, counts in view.counts.items():
        jobs[queue, "waiting"] = counts.waiting
        jobs[queue, "active"] = counts.active
        jobs[queue, "completed"] = view.finished[queue].completed
        jobs[queue, "failed"] = view.finished[queue].failed
    ages: Samples = {(q,): MISSING_HEARTBEAT if age is None else age for q, age in view.heartbeats.items()}
    ratios: Samples = {(q,): finished.failure_ratio for q, finished in view.finished.items()}
    return [
        _jobs(jobs),
        Gauge(
            "lingxi_queue_failure_ratio",
            "failed / (failed + completed) within the last hour; 0 without samples.",
            ("queue",),
            ratios,
        ),
        Gauge(
            "lingxi_worker_heartbeat_age_seconds",
            "Seconds since a worker of the queue was heard, by Redis's clock; -1 when missing.",
            ("queue",),
            ages,
        ),
        Gauge(
            "lingxi_dispatcher_held",
            "1 when a dispatcher holds the lock, which it renews every second; else 0.",
            (),
            {(): float(view.dispatcher_held)},
        ),
    ]


def _database_gauges(view: DatabaseView) -> list[Gauge]:
    oldest: Samples = {(queue,): seconds for queue, seconds in view.oldest_seconds.items()}
    return [
        Gauge(
            "lingxi_queue_oldest_waiting_seconds",
            "The longest wait of any item that is due, wherever it waits; 0 when none.",
            ("queue",),
            oldest,
        ),
        Gauge(
            "lingxi_outbox_pending_total",
            "Unpublished outbox events, dead letters too.",
            (),
            {(): view.outbox_pending},
        ),
        Gauge(
            "lingxi_outbox_dead_letter_total",
            "Outbox events given up on.",
            (),
            {(): view.outbox_dead_letters},
        ),
        Gauge(
            "lingxi_outbox_oldest_due_seconds",
            "For how long the event that is due the longest has been due; 0 when none is.",
            (),
            {(): view.outbox_oldest_due_seconds},
        ),
        Gauge(
            "lingxi_canary_age_seconds",
            "For how long the queue's canary has waited for a worker's answer; 0 when it has it.",
            ("queue",),
            {(queue,): seconds for queue, seconds in view.canary_seconds.items()},
        ),
    ]
