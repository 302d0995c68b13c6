"""A workspace's limits at the API: requests a minute are counted here, in memory; items and bytes in PostgreSQL, in each change.

Limits are read from PostgreSQL at most every five seconds a workspace, so a new one holds then. A limit that nobody has set costs
no statement. Several API processes each count requests for themselves.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from uuid import UUID

from lingxi.api.rates import AddressRates
from lingxi.db.session import Connection, Pool
from lingxi.observability.metrics import Gauge
from lingxi.services.quotas import (
    Limits,
    OverQuota,
    charge_open_items,
    charge_stored_bytes,
    get_quota,
)

_READ_SECONDS = 5.0
_MOST_WORKSPACES = 10_000  # remembered; those that have been silent longest are read again
_KINDS = ("requests", "open_items", "stored_bytes")


class Quotas:
    """`defaults`: the deployment's limits, of workspaces that have none of their own."""

    def __init__(self, pool: Pool, defaults: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._defaults, self._clock = pool, defaults, clock
        self._known: OrderedDict[UUID, tuple[Limits, float]] = OrderedDict()
        self._rates: dict[int, AddressRates] = {}  # by requests a minute
        self.refused: Counter[str] = Counter(dict.fromkeys(_KINDS, 0))

    async def limits(self, workspace_id: UUID, connection: Connection | None = None) -> Limits:
        """What holds for a workspace, as it was read at most five seconds ago; read over `connection` where there is one."""
        known = self._known.get(workspace_id)
        if known is not None and self._clock() < known[1] + _READ_SECONDS:
            return known[0]
        if connection is None:
            async with self._pool.acquire(timeout=5) as own:
                quota = await get_quota(own, workspace_id)
        else:
            quota = await get_quota(connection, workspace_id)
        limits = quota.over(self._defaults)
        self._known[workspace_id] = (limits, self._clock())
        self._known.move_to_end(workspace_id)
        if len(self._known) > _MOST_WORKSPACES:
            self._known.popitem(last=False)
        return limits

    async def admit_request(self, workspace_id: UUID) -> OverQuota | None:
        """Counts a request. What it is to be refused with, when the workspace has made too many."""
        per_minute = (await self.limits(workspace_id)).requests_per_minute
        if not per_minute:
            return None
        wait = self._rates.setdefault(per_minute, AddressRates(per_minute)).wait_seconds(str(workspace_id))
        if not wait:
            return None
        return OverQuota("requests", f"The workspace may make {per_minute} requests a minute.", ceil(wait))

    async def charge_items(self, connection: Connection, workspace_id: UUID, items: int) -> None:
        """Before they are written, in the transaction that does. OverQuota (42901)."""
        limit = (await self.limits(workspace_id, connection)).open_items
        with self.counting():
            await charge_open_items(connection, workspace_id, items, limit)

    async def charge_bytes(self, connection: Connection, workspace_id: UUID, size_bytes: int) -> None:
        """Before they get a row, in the transaction that writes it. OverQuota (42901)."""
        limit = (await self.limits(workspace_id, connection)).stored_bytes
        with self.counting():
            await charge_stored_bytes(connection, workspace_id, size_bytes, limit)

    def forget(self, workspace_id: UUID) -> None:
        """Its limits have changed."""
        self._known.pop(workspace_id, None)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """What is refused inside is counted."""
        try:
            yield
        except OverQuota as over:
            self.refused[over.kind] += 1
            raise

    def gauges(self) -> list[Gauge]:
        """What this process has refused."""
        samples: dict[tuple[str, ...], float] = {(kind,): count for kind, count in self.refused.items()}
        said = "Requests that this process has refused, as a workspace was over its limit."
        return [Gauge("lingxi_quota_refused_total", said, ("limit",), samples, "counter")]
