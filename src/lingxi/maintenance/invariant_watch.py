"""Looks at the newest tasks every so often: do their rows keep what must always hold? What does not is logged and counted.

It is a watch, not a proof: `lingxi invariants` looks at everything. Each look is one read-only snapshot of a bounded number of
rows.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from lingxi.db.session import Pool
from lingxi.maintenance.loop import Loop
from lingxi.observability.logging import get_logger
from lingxi.services.check_invariants import check_newest_tasks

NEWEST_TASKS = 50

_log = get_logger(__name__)


@dataclass(slots=True)
class InvariantWatch(Loop):
    """`broken`: violations by invariant, counted again by each look that finds them."""

    name: ClassVar = "invariant_watch"

    pool: Pool
    interval_seconds: float = 300.0
    broken: Counter[str] = field(default_factory=Counter)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def done_once(self) -> dict[str, int]:
        """See `Loop.done_once`."""
        found = Counter[str]()
        async with (
            self.pool.acquire(timeout=5) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            async for violation in check_newest_tasks(connection, NEWEST_TASKS):
                found[violation.invariant] += 1
                _log.error(
                    "invariant_violated",
                    invariant=violation.invariant,
                    subject=violation.subject,
                    detail=violation.detail,
                )
        self.broken += found
        return {"violations": found.total()}

    def found(self) -> dict[str, int]:
        """For the counter."""
        return dict(self.broken)
