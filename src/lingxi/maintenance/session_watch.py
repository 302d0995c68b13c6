"""Ends sessions of ours whose client froze in the midst of a statement: they would keep their locks until it wakes.

PostgreSQL ends a transaction whose client is silent *between* two statements (`idle_in_transaction_session_timeout`). But the
driver prepares a statement in one message and runs it in the next, and between the two the session counts as active; and so it
does while it waits for a client that reads no answer. No timeout before PostgreSQL 17 covers that; `statement_timeout` does not.
"""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, NamedTuple

from lingxi.db.query import sql
from lingxi.db.session import LONGEST_IDLE_SECONDS, Pool
from lingxi.maintenance.loop import Loop
from lingxi.observability.logging import get_logger

_log = get_logger(__name__)


class Session(NamedTuple):
    """A process of the server, and since when it is as it is: not the same again once it has done something."""

    pid: int
    since: datetime


@dataclass(slots=True)
class SessionWatch(Loop):
    """Ends a session that each look for `longest_seconds` found so; one of a processor only when somebody waits for it."""

    name: ClassVar = "session_watch"

    pool: Pool
    interval_seconds: float = 5.0
    longest_seconds: float = LONGEST_IDLE_SECONDS
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _first_seen: dict[Session, float] = field(default_factory=dict)

    async def done_once(self) -> dict[str, int]:
        """See `Loop.done_once`."""
        async with self.pool.acquire(timeout=5) as connection:
            rows = await connection.fetch(sql("session/waiting_for_client"))
            now, before = time.monotonic(), self._first_seen
            self._first_seen = {
                session: before.get(session, now)
                for session in (Session(row["pid"], row["since"]) for row in rows)
            }
            ended = 0
            for row in rows:
                session = Session(row["pid"], row["since"])
                seconds = now - self._first_seen[session]
                if not row["in_the_way"] or seconds < self.longest_seconds:
                    continue
                if await connection.fetchval(sql("session/end"), *session):
                    ended += 1
                    _log.warning(
                        "session_ended",
                        application=row["application_name"],
                        waited_seconds=round(seconds, 1),
                        reason="its client froze in the midst of a statement",
                    )
        return {"ended": ended}
