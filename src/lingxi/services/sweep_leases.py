"""End attempts that nobody runs any more: `worker_lost`, charged, so that an item that kills its worker ends too.

They are looked for without a lock, which takes as long as there are items, and ended some at a time: claims of a task wait while
a batch has it, for at most 100 ms.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection, LockNotAvailable

FOUND_AT_A_TIME: Final = 10_000
FIRST_BATCH: Final = 50
LARGEST_BATCH: Final = 500
# A third of the limit: a server that just began a checkpoint, or is busy, may need several times as long as for the batch before.
LONG_SECONDS: Final = 0.03
SHORT_SECONDS: Final = LONG_SECONDS / 3
LONGEST_WAIT: Final = "50ms"


class LostAttempt(NamedTuple):
    """An attempt that seemed lost when it was looked for."""

    task_id: UUID
    position: int
    fence: int


@dataclass(slots=True)
class Pace:
    """How many attempts are ended at a time: as many as this server ends in some 10 to 30 milliseconds."""

    size: int = FIRST_BATCH

    def took(self, seconds: float) -> None:
        """Less after a long batch, more after a short one."""
        if seconds > LONG_SECONDS:
            self.less()
        elif seconds < SHORT_SECONDS:
            self.size = min(self.size * 2, LARGEST_BATCH)

    def less(self) -> None:
        """Half as many."""
        self.size = max(self.size // 2, 1)


@dataclass(slots=True)
class Swept:
    """What was ended. `failed` of the `lost` had no attempt left; `task_ids` are those that changed."""

    lost: int = 0
    failed: int = 0
    task_ids: set[UUID] = field(default_factory=set)

    def add(self, other: "Swept") -> None:
        """Both together."""
        self.lost += other.lost
        self.failed += other.failed
        self.task_ids |= other.task_ids


async def find_lost(connection: Connection, *, worker: str | None = None) -> list[LostAttempt]:
    """Up to FOUND_AT_A_TIME attempts whose lease ran out; with `worker`, those of that dead process. By task."""
    rows = await connection.fetch(sql("items/lost"), FOUND_AT_A_TIME, worker)
    return sorted(LostAttempt(*row) for row in rows)


async def end_batch(
    connection: Connection, lost: list[LostAttempt], pace: Pace, *, worker: str | None = None
) -> Swept:
    """End some of `lost`, and take from the list what is settled. One that lives after all is left alone.

    Who waits for a task while it has others locked keeps all of them from everybody. So it waits for a moment only, lets go of
    what it has, and is to come with half as many; a single attempt holds no other task, and waits.
    """
    batch = lost[: pace.size]
    try:
        async with connection.transaction():
            if len(batch) > 1:
                await connection.execute(f"set local lock_timeout = '{LONGEST_WAIT}'")
            started = time.perf_counter()
            swept = await end_lost(connection, batch, only_expired=worker is None)
            pace.took(time.perf_counter() - started)
    except LockNotAvailable:
        pace.size = len(batch)
        pace.less()
        return Swept()
    del lost[: len(batch)]
    return swept


async def end_lost(connection: Connection, batch: Sequence[LostAttempt], *, only_expired: bool) -> Swept:
    """End these in one statement; `only_expired`: leave those whose lease has been renewed."""
    task_ids, positions, fences = zip(*batch, strict=True)
    rows = await connection.fetch(sql("items/end_lost"), task_ids, positions, fences, only_expired)
    accepted = [row for row in rows if row["verdict"] == "accepted"]
    failed = sum(row["state"] == "failed" for row in accepted)
    return Swept(len(accepted), failed, {row["task_id"] for row in accepted})


async def sweep_leases(connection: Connection, *, worker: str | None = None) -> Swept:
    """End all whose lease ran out; with `worker`, all of that dead process at once."""
    swept, pace = Swept(), Pace()
    while lost := await find_lost(connection, worker=worker):
        while lost:
            swept.add(await end_batch(connection, lost, pace, worker=worker))
    return swept
