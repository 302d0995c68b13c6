"""Sends the jobs of a round's events to their queues, and finds out which event is to blame when it does not work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lingxi.broker.connection import ConnectionFactory, ping
from lingxi.broker.errors import BrokerError, BrokerTimeout, BrokerUnavailable
from lingxi.broker.link import SharedConnection
from lingxi.broker.queue import BullQueue, Job

_PING_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Parcel:
    """One event's jobs, on their way to one queue. `timestamp_ms` is the database's time."""

    event_id: int
    queue: str
    priority: int
    jobs: Sequence[Job]
    timestamp_ms: int


@dataclass(slots=True)
class Delivered:
    """How sending went. Events in neither list were not tried to the end: they come again, uncharged.

    `unavailable` says why Redis cannot serve now; `timed_out`, that it can, but was too slow for these events together.
    """

    sent: list[int] = field(default_factory=list)
    guilty: dict[int, str] = field(default_factory=dict)
    jobs: int = 0
    unavailable: str | None = None
    timed_out: bool = False

    @property
    def stopped(self) -> bool:
        return self.unavailable is not None or self.timed_out


class JobSender:
    """Owns the dispatcher's side of the queues: one connection for all of them."""

    def __init__(
        self, queues: Iterable[str], redis_url: str, connect: ConnectionFactory, *, name: str
    ) -> None:
        self._redis_url = redis_url
        self._shared = SharedConnection(connect, name)
        self._queues = {queue: BullQueue(queue, self._shared, token=name) for queue in queues}

    async def lines(self) -> dict[str, tuple[int, int | None]]:
        """For each queue how many jobs wait, and the number of the first in line. Raises BrokerUnavailable.

        A queue that another client broke is put right, and is not among them this time.
        """
        queues = list(self._queues)
        lines = await asyncio.gather(
            *(self._queues[queue].line() for queue in queues), return_exceptions=True
        )
        sound: dict[str, tuple[int, int | None]] = {}
        for queue, line in zip(queues, lines, strict=True):
            if isinstance(line, tuple):
                sound[queue] = line
            elif isinstance(line, BrokerUnavailable) or not isinstance(line, BrokerError):
                raise line
            else:
                await self._queues[queue].mend(str(line))
        return sound

    async def send(self, parcels: Sequence[Parcel], *, deadline: float) -> Delivered:
        """Add all jobs, those of one priority and queue together. `deadline` is in the loop's time."""
        delivered = Delivered()
        batches: dict[tuple[int, str], list[Parcel]] = {}
        for parcel in parcels:
            batches.setdefault((parcel.priority, parcel.queue), []).append(parcel)
        for key in sorted(batches, key=lambda key: key[0]):
            await self._send_together(batches[key], delivered, deadline)
            if delivered.stopped:
                break
        if (
            delivered.timed_out and len(parcels) == 1
        ):  # it was alone, and the server is well: so it is to blame
            delivered.timed_out = False
            delivered.guilty[parcels[0].event_id] = "Redis answers, but not to this event's jobs in time"
        return delivered

    async def _send_together(self, parcels: list[Parcel], delivered: Delivered, deadline: float) -> None:
        try:
            await self._add(parcels, deadline)
        except (BrokerTimeout, TimeoutError):
            self._shared.drop()  # whatever waits in that pipe must not delay the next try
            try:
                await ping(self._redis_url, timeout_seconds=_PING_SECONDS)
                delivered.timed_out = True
            except BrokerUnavailable as error:
                delivered.unavailable = str(error)
        except BrokerUnavailable as error:
            delivered.unavailable = str(error)
        except BrokerError as error:
            await self._send_apart(parcels, delivered, deadline, error)
        else:
            delivered.sent += [parcel.event_id for parcel in parcels]
            delivered.jobs += sum(len(parcel.jobs) for parcel in parcels)

    async def _send_apart(
        self, parcels: list[Parcel], delivered: Delivered, deadline: float, error: BrokerError
    ) -> None:
        """Somebody in this batch is to blame: one by one shows who. Jobs that were added already are ignored by id."""
        if len(parcels) == 1:
            delivered.guilty[parcels[0].event_id] = str(error)
            return
        for parcel in parcels:
            await self._send_together([parcel], delivered, deadline)
            if delivered.stopped:
                return

    async def _add(self, parcels: list[Parcel], deadline: float) -> None:
        jobs = [job for parcel in parcels for job in parcel.jobs]
        first = parcels[0]
        queue = self._queues.get(first.queue)
        if queue is None:
            raise BrokerError(f"there is no queue {first.queue!r}")
        async with asyncio.timeout_at(deadline):
            await queue.add_many(
                jobs, priority=first.priority, timestamp_ms=min(p.timestamp_ms for p in parcels)
            )

    async def add(self, queue: str, job: Job) -> None:
        """Add one job that belongs to no event. Raises BrokerError."""
        await self._queues[queue].add_many([job], priority=0, timestamp_ms=time.time_ns() // 1_000_000)

    async def close(self) -> None:
        for queue in self._queues.values():
            await queue.close()
        await self._shared.close()
