"""Tells what the dispatcher did, for the metrics."""

import time
from collections.abc import Mapping, Sequence

from lingxi.broker.client import RedisClient
from lingxi.broker.totals import Totals as TotalsInRedis
from lingxi.observability.tallies import Tallies
from lingxi.outbox.counts import Totals

_TELL_SECONDS = 2.0


class Teller:
    """Of one dispatcher; `totals` is what it counts."""

    def __init__(self, client: RedisClient, totals: Totals) -> None:
        self._redis = TotalsInRedis(client)
        self._tallies = Tallies()
        self._tallies.follow("lingxi_outbox_events_total", totals.of_events)
        self._tallies.follow("lingxi_outbox_jobs_total", lambda: {"": totals.jobs})
        self._told_at = 0.0

    def sent(self, due_seconds: Mapping[int, float], event_ids: Sequence[int]) -> None:
        """These events were sent; each had been due for so long."""
        lags = (due_seconds[event_id] for event_id in event_ids)
        self._tallies.observe_all("lingxi_outbox_lag_seconds", seconds=lags)

    async def tell(self) -> None:
        """Every so often; what Redis does not take now is told later."""
        if time.monotonic() - self._told_at >= _TELL_SECONDS:
            self._told_at = time.monotonic()
            await self._redis.tell(self._tallies)
