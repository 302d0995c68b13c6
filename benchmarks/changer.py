"""The changing side of `sse`: ends items one by one as a worker does, and notes when each commit had come back."""

import asyncio
import time
import uuid
from collections.abc import Sequence

import asyncpg

from benchmarks.stack import QUEUE
from lingxi.broker.client import api_client
from lingxi.broker.hints import Hints
from lingxi.domain.decide import Decision
from lingxi.services.claim_items import Claim, ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items

LONG_SECONDS = 800.0


class Changer:
    """Owns the items of some tasks. `commits` holds the time of each change by (task index, number)."""

    def __init__(self, connection: asyncpg.Connection, redis_url: str, task_ids: Sequence[str]) -> None:
        self.commits: dict[tuple[int, int], float] = {}
        self._connection = connection
        self._client = api_client(redis_url)
        self._hints = Hints(self._client)
        self._task_ids = [uuid.UUID(task_id) for task_id in task_ids]
        self._claims: list[list[Claim]] = []
        self._numbers: list[int] = []

    async def claim_all(self, items_per_task: int) -> None:
        """Start every item, so that each later change is one finish."""
        await self._connection.execute("set pg_stat_statements.track = 'none'")  # ours are not the server's
        for task_id in self._task_ids:
            keys = [ItemKey(task_id, position) for position in range(1, items_per_task + 1)]
            async with self._connection.transaction():
                claims = await claim_items(
                    self._connection,
                    QUEUE,
                    keys,
                    worker="bench",
                    lease_seconds=LONG_SECONDS,
                    time_limit_seconds=LONG_SECONDS,
                )
            if len(claims) != items_per_task:
                raise RuntimeError(f"claimed {len(claims)} of {items_per_task} items")
            self._claims.append(claims)
            self._numbers.append(1 + items_per_task)

    async def change(self, per_second: float, seconds: float) -> None:
        """End items at an even pace, the tasks in turn."""
        started_at = time.monotonic()
        for count in range(int(per_second * seconds)):
            await asyncio.sleep(max(0.0, started_at + count / per_second - time.monotonic()))
            await self._finish_one(count % len(self._task_ids))

    async def _finish_one(self, task: int) -> None:
        claim = self._claims[task].pop()
        decision = Decision(outcome="succeeded", result='{"attempt":1}')
        async with self._connection.transaction():
            finished = await finish_items(self._connection, [Ending(claim.key, claim.fence, decision)])
        committed_at = time.monotonic()
        self._hints.publish_tasks([claim.key.task_id])
        if [one.verdict for one in finished.values()] != ["accepted"]:
            raise RuntimeError(f"the finish was not accepted: {finished}")
        self._numbers[task] += 1
        self.commits[task, self._numbers[task]] = committed_at

    async def close(self) -> None:
        await self._hints.close()
        await self._client.aclose()
