"""Removes what is older than it is kept: in small transactions, some of each kind a round, so that nobody waits for it."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from lingxi.db.session import Pool
from lingxi.maintenance.loop import Loop
from lingxi.services.retention import KINDS, Retention, prune_steps

STEPS_A_ROUND = 40


@dataclass(slots=True)
class Pruner(Loop):
    """`prune_once()`, and its loop."""

    name: ClassVar = "prune"

    pool: Pool
    retention: Retention
    interval_seconds: float = 60.0
    totals: Counter[str] = field(default_factory=Counter)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def done_once(self) -> dict[str, int]:
        """See `Loop.done_once`."""
        return await self.prune_once()

    async def prune_once(self, *, steps: int = STEPS_A_ROUND) -> dict[str, int]:
        """At most so many steps of each kind; how many rows of each are gone."""
        removed: Counter[str] = Counter()
        async for kind, number in prune_steps(
            self.pool, self.retention, most=steps, stopped=self.stopping.is_set
        ):
            removed[kind] += number
            self.totals[kind] += number
        return {kind: removed[kind] for kind in KINDS}

    def removed(self) -> dict[str, int]:
        """What all rounds of this process removed, by kind."""
        return {kind: self.totals[kind] for kind in KINDS}
