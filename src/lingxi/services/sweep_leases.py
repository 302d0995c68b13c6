"""End attempts that nobody runs any more: `worker_lost`, charged, so that an item that kills its worker ends too."""

from dataclasses import dataclass
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection

BATCH = 500


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep ended. `task_ids` are those that changed."""

    lost: int
    failed: int
    task_ids: frozenset[UUID]

    @property
    def full(self) -> bool:
        """Was the batch full, so that there may be more?"""
        return self.lost >= BATCH


async def sweep_leases(connection: Connection, *, worker: str | None = None) -> Swept:
    """End up to BATCH attempts whose lease ran out; with `worker`, those of that dead process at once."""
    rows = await connection.fetch(sql("items/sweep"), BATCH, worker)
    accepted = [row for row in rows if row["verdict"] == "accepted"]
    return Swept(
        len(accepted),
        sum(row["state"] == "failed" for row in accepted),
        frozenset(row["task_id"] for row in accepted),
    )
