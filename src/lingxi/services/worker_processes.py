"""Worker processes tell of themselves at each heartbeat, in a row, and hear there what is wanted of them.

quiet: nothing new is taken, what runs is finished, and the process stays. stop: like SIGTERM. Rows: a wiped Redis forgets none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import time_to_wire
from lingxi.names import HEARTBEAT_TTL_SECONDS

State = Literal["working", "quiet", "stopping"]
Wanted = Literal["quiet", "stop"]
LOST_SECONDS = 2 * HEARTBEAT_TTL_SECONDS


@dataclass(frozen=True, slots=True)
class Presence:
    """What a process tells of itself. `running`: items and photos that it works on."""

    boot: str
    name: str
    host: str
    pid: int
    version: str
    queues: Sequence[str]
    running: int
    state: State


@dataclass(frozen=True, slots=True)
class WorkerRow(Presence):
    """What is known of a process. `age_seconds`: since it last told; `wanted` None: to work."""

    wanted: Wanted | None
    started_at: datetime
    seen_at: datetime
    age_seconds: float

    def to_wire(self) -> dict[str, Any]:
        """The `Worker` of the document."""
        return {
            "boot": self.boot,
            "name": self.name,
            "host": self.host,
            "pid": self.pid,
            "version": self.version,
            "queues": list(self.queues),
            "running": self.running,
            "state": "lost" if self.age_seconds > LOST_SECONDS else self.state,
            "wanted": self.wanted or "work",
            "startedAt": time_to_wire(self.started_at),
            "seenAt": time_to_wire(self.seen_at),
            "ageSeconds": round(self.age_seconds, 1),
        }


async def tell_of_worker(connection: Connection, presence: Presence) -> Wanted | None:
    """Writes the row; answers what is wanted of the process."""
    wanted: Wanted | None = await connection.fetchval(
        sql("workers/tell"), presence.boot, presence.name, presence.host, presence.pid, presence.version,
        list(presence.queues), presence.running, presence.state,
    )  # fmt: skip
    return wanted


async def forget_worker(connection: Connection, boot: str) -> None:
    """The process has ended."""
    await connection.execute(sql("workers/forget"), boot)


async def list_workers(connection: Connection) -> list[WorkerRow]:
    """All that are known, by host."""
    return [WorkerRow(**dict(row)) for row in await connection.fetch(sql("workers/list"), None)]


async def ask_worker(connection: Connection, boot_or_name: str, wanted: Wanted | None) -> WorkerRow:
    """Asks a process to be quiet, to stop, or (None) to work again; it hears of it at its next heartbeat.

    NotFound when there is none; Conflict when it is to stop already, and something else was asked.
    """
    found = await connection.fetchrow(sql("workers/list"), boot_or_name)
    if found is None:
        raise NotFound
    asked = await connection.fetchval(sql("workers/ask"), found["boot"], wanted)
    if asked is None and wanted != "stop":
        raise Conflict("It stops, or has ended.")
    row = await connection.fetchrow(sql("workers/list"), found["boot"])
    return WorkerRow(**dict(row or found))
