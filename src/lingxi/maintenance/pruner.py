"""Removes what is older than it is kept: in small transactions, some of each kind a round, so that nobody waits for it."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from lingxi.db.session import Pool, transaction
from lingxi.maintenance.loop import Loop
from lingxi.services.retention import KINDS, Retention, prune_leftovers, prune_rest_of_task, prune_step

STEPS_A_ROUND = 40


@dataclass(slots=True)
class Pruner(Loop):
    """`prune_once()`, and its loop. Several at once do no harm: each steps over what another has locked."""

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
        for kind, kept_seconds in self.retention.seconds().items():
            if kept_seconds is not None:
                await self._steps(kind, kept_seconds, steps, removed)
        await self._finish_tasks(steps, removed)
        async with transaction(self.pool) as connection:
            await prune_leftovers(connection)
        return {kind: removed[kind] for kind in KINDS}

    def removed(self) -> dict[str, int]:
        """What all rounds of this process removed, by kind."""
        return {kind: self.totals[kind] for kind in KINDS}

    async def _steps(self, kind: str, kept_seconds: float, steps: int, removed: Counter[str]) -> None:
        for _ in range(steps):
            if self.stopping.is_set():
                return
            async with transaction(self.pool) as connection:
                number, more = await prune_step(connection, kind, kept_seconds)
            removed[kind] += number
            self.totals[kind] += number
            if not more:
                return

    async def _finish_tasks(self, steps: int, removed: Counter[str]) -> None:
        for _ in range(steps):
            if self.stopping.is_set():
                return
            async with transaction(self.pool) as connection:
                items, more = await prune_rest_of_task(connection)
            removed["items"] += items
            self.totals["items"] += items
            if not more:
                return
