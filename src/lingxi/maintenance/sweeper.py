"""The sweep: at start and every 30 s it ends attempts whose lease ran out, and sends again what Redis has lost.

It decides by facts in PostgreSQL alone, with PostgreSQL's time. Whatever it sends twice is claimed once, so a sweep that
was wrong about Redis costs a job, never a second run.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol
from uuid import UUID, uuid4

from lingxi.broker.errors import BrokerError
from lingxi.db.query import sql
from lingxi.db.session import Connection, Pool, transaction
from lingxi.maintenance.loop import Loop
from lingxi.observability import failpoints
from lingxi.services.requeue_lost import NO_ID, WaitingTask, expected_jobs, requeue_items, waiting_tasks
from lingxi.services.retry_plans import advance_retry_plans
from lingxi.services.sweep_leases import FOUND_AT_A_TIME, Pace, end_batch, find_lost

SWEEP_LOCK = 0x57EE9  # one sweep at a time: a second would only find the same
EXIST_BATCH = 1_000
WIPE_LOOK_SECONDS = (
    1.0,
    3.0,
)  # between two looks for the marker, so that many workers do not find it gone at once
MARKER = "redis_marker"
MARKER_TURN = "redis_marker_turn"


class JobLookup(Protocol):
    """What the sweep needs of a queue: which of these jobs does Redis hold?"""

    async def exist(self, job_ids: Sequence[str]) -> list[bool]: ...


class Marker(Protocol):
    """A value in Redis that is gone when Redis was wiped, and old when it was restored."""

    async def read(self) -> str | None: ...
    async def write(self, value: str) -> None: ...


class TaskHints(Protocol):
    """Tells watchers and the dispatcher that something changed."""

    def publish_tasks(self, task_ids: Sequence[UUID]) -> None: ...
    def publish_outbox(self) -> None: ...


@dataclass(slots=True)
class SweepCounts:
    """What one sweep did."""

    lost: int = 0  # attempts whose lease ran out
    failed: int = 0  # of these, items that had no attempt left
    requeued: int = 0  # items that Redis had lost
    planned: int = 0  # tasks whose retry went on after its canaries, or ended
    wiped: bool = False  # Redis was wiped or restored since the last sweep
    skipped: bool = False  # another process was sweeping
    task_ids: set[UUID] = field(default_factory=set)


@dataclass(slots=True)
class Sweeper(Loop):
    """The loop. `queues` are the queues of this deployment with how to look jobs up in each; `wipes` counts wipes found."""

    name: ClassVar = "sweep"

    pool: Pool
    queues: Mapping[str, JobLookup]
    marker: Marker
    hints: TaskHints
    interval_seconds: float = 30.0
    totals: SweepCounts = field(default_factory=SweepCounts)
    wipes: int = 0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def done_once(self) -> dict[str, int]:
        """See `Loop.done_once`."""
        counts = await self.run_once()
        return {
            "lost": counts.lost,
            "failed": counts.failed,
            "requeued": counts.requeued,
            "planned": counts.planned,
            "wiped": int(counts.wiped),
        }

    def found(self) -> dict[str, int]:
        """What all sweeps of this process found: attempts lost, items that failed for it, items that Redis had lost, wipes."""
        return {
            "lost": self.totals.lost,
            "failed": self.totals.failed,
            "requeued": self.totals.requeued,
            "wiped": self.wipes,
        }

    async def run_once(self) -> SweepCounts:
        """One sweep; answers what it did. Leases first: they need no Redis."""
        counts = SweepCounts()
        try:
            await self._sweep_leases(counts)
            if not counts.skipped:
                await self._advance_plans(counts)
                await self._requeue_lost(counts)
        finally:
            self.totals.lost += counts.lost
            self.totals.failed += counts.failed
            self.totals.requeued += counts.requeued
            self.wipes += counts.wiped
            if counts.task_ids:
                self.hints.publish_tasks(list(counts.task_ids))
                self.hints.publish_outbox()
        return counts

    async def _rest(self) -> None:
        """Until the interval is over, or the marker is gone: a wiped Redis gets its jobs back at once."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self.interval_seconds
        while (left := ends_at - loop.time()) > 0:
            if await self._stops_within(min(left, random.uniform(*WIPE_LOOK_SECONDS))):
                return
            if left > WIPE_LOOK_SECONDS[1] and await self._is_wiped():
                return

    async def _is_wiped(self) -> bool:
        try:
            return await self.marker.read() is None
        except BrokerError:
            return False  # not to be told; the round will

    async def _sweep_leases(self, counts: SweepCounts) -> None:
        pace = Pace()
        while not self.stopping.is_set():
            async with transaction(self.pool) as connection:
                if not await self._alone(connection):
                    counts.skipped = True
                    return
                lost = await find_lost(connection)
            more = len(lost) == FOUND_AT_A_TIME
            while lost and not self.stopping.is_set():
                async with transaction(self.pool) as connection:
                    swept = await end_batch(connection, lost, pace)
                    await failpoints.reach("sweep.before_commit")
                await failpoints.reach("sweep.after_commit")
                counts.lost += swept.lost
                counts.failed += swept.failed
                counts.task_ids |= swept.task_ids
            if not more:
                return

    async def _advance_plans(self, counts: SweepCounts) -> None:
        """Canaries of a retry whose end no dispatcher has seen."""
        async with transaction(self.pool) as connection:
            decided = await advance_retry_plans(connection)
        counts.planned += len(decided)
        counts.task_ids |= decided

    async def _requeue_lost(self, counts: SweepCounts) -> None:
        found = await self.marker.read()  # before PostgreSQL's, which is written first
        known = await self._known_markers()
        counts.wiped = found not in known
        # After a wipe nothing that was sent is there; otherwise a job may be on its way between two servers.
        seconds_ago = 0.0 if counts.wiped else self.interval_seconds
        after = NO_ID
        while not self.stopping.is_set():
            async with self.pool.acquire() as connection:
                tasks = await waiting_tasks(connection, list(self.queues), after=after)
            if not tasks:
                break
            for task in tasks:
                await self._requeue_task(task, seconds_ago, counts)
            after = tasks[-1].id
        if self.stopping.is_set():
            return
        if counts.wiped:
            await self.marker.write(known[-1])
        else:
            await self._renew_marker(found or known[-1])

    async def _known_markers(self) -> list[str]:
        """What this Redis may bear: the marker that it had, and the one that somebody was about to write."""
        async with transaction(self.pool) as connection:
            value = await connection.fetchval(sql("deployment/remember"), MARKER, str(uuid4()))
        return str(value).split()

    async def _renew_marker(self, found: str) -> None:
        """A new marker, once an interval for all sweeps together: so a copy of Redis that is older than that bears an old one."""
        new = str(uuid4())
        async with transaction(self.pool) as connection:
            if not await connection.fetchval(sql("deployment/take_turn"), MARKER_TURN, self.interval_seconds):
                return
            await connection.execute(sql("deployment/set"), MARKER, f"{found} {new}")
        await self.marker.write(new)

    async def _requeue_task(self, task: WaitingTask, seconds_ago: float, counts: SweepCounts) -> None:
        async with self.pool.acquire() as connection:
            expected = await expected_jobs(connection, task, published_seconds_ago=seconds_ago)
        present = await self._present(task.type, [job for jobs in expected.values() for job in jobs])
        lost = [position for position, jobs in expected.items() if not present.intersection(jobs)]
        if not lost:
            return
        # All of a task in one statement: it locks no row that is there, and would read the events of the parts before.
        async with transaction(self.pool) as connection:
            requeued = await requeue_items(connection, task.id, lost)
        counts.requeued += requeued
        if requeued:
            counts.task_ids.add(task.id)

    async def _present(self, queue: str, job_ids: list[str]) -> set[str]:
        present: set[str] = set()
        for start in range(0, len(job_ids), EXIST_BATCH):
            batch = job_ids[start : start + EXIST_BATCH]
            there = await self.queues[queue].exist(batch)
            present.update(job for job, is_there in zip(batch, there, strict=True) if is_there)
        return present

    async def _alone(self, connection: Connection) -> bool:
        return bool(await connection.fetchval(sql("deployment/try_lock"), SWEEP_LOCK))
