"""Claim items for a worker: many in one round trip, each under a lease and with a fence of its own."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


class ItemKey(NamedTuple):
    """Which item: its task and its position there (from 1)."""

    task_id: UUID
    position: int


class Claim(NamedTuple):
    """An attempt that this worker owns until its lease or its deadline ends. `input` is JSON text."""

    key: ItemKey
    fence: int
    attempt: int
    round: int
    max_attempts: int
    workspace_id: UUID
    ref: str | None
    input: str
    deadline_at: datetime
    suspect: bool = False  # its last attempt was lost: it may have killed its worker


async def claim_items(
    connection: Connection,
    queue: str,
    keys: Sequence[ItemKey],
    *,
    worker: str,
    lease_seconds: float,
    time_limit_seconds: float,
    suspects: int | None = None,
) -> list[Claim]:
    """Claim those of `keys` that wait, are due and are of this queue; the rest is final, running elsewhere, or unknown.

    Of the items whose last attempt was lost, at most `suspects` (None: all).
    """
    rows = await connection.fetch(
        sql("items/claim"),
        queue,
        [key.task_id for key in keys],
        [key.position for key in keys],
        worker,
        timedelta(seconds=lease_seconds),
        timedelta(seconds=time_limit_seconds),
        suspects,
    )
    return [
        Claim(
            ItemKey(row["task_id"], row["position"]),
            row["attempt_id"],
            row["attempt"],
            row["round"],
            row["max_attempts"],
            row["workspace_id"],
            row["ref"],
            row["input"],
            row["deadline_at"],
            row["suspect"],
        )
        for row in rows
    ]


Waits = Literal["no", "suspect", "held"]


async def existing_items(connection: Connection, queue: str, keys: Sequence[ItemKey]) -> dict[ItemKey, Waits]:
    """Which of `keys` are items of this queue at all, and which of these wait and are due.

    `suspect`: its last attempt was lost; `held`: a claim was refused it for its workspace's cap or its queue's pause, which
    may be over by now; `no`: it needs no work now.
    """
    rows = await connection.fetch(
        sql("items/exist"), queue, [key.task_id for key in keys], [key.position for key in keys]
    )
    return {
        ItemKey(row["task_id"], row["position"]): "suspect"
        if row["suspect"]
        else "held"
        if row["waits"]
        else "no"
        for row in rows
    }
