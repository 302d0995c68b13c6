"""`GET /media-tasks/{taskId}?eta=true`: the task with when it will have ended."""

from datetime import UTC, datetime, timedelta
from typing import Any

from lingxi.api.deps import ApiDeps
from lingxi.api.monitor import within
from lingxi.broker.errors import BrokerError
from lingxi.broker.stats import FinishedCounts
from lingxi.domain.wire import Task, time_to_wire
from lingxi.observability.metrics import COLLECT_SECONDS
from lingxi.services.estimate_end import estimate_end

MINUTES = 10  # of the queue, where the task itself has not ended enough


async def eta_of(deps: ApiDeps, task: Task) -> dict[str, Any] | None:
    """The `Eta` of the document; None when it has ended, or nothing was measured yet."""
    if task.final:
        return None
    try:
        minutes = await within(
            lambda: FinishedCounts(deps.redis).by_minute(task.type, MINUTES), COLLECT_SECONDS
        )
    except (BrokerError, TimeoutError):
        minutes = None
    async with deps.pool.acquire(timeout=5) as connection:
        eta = await estimate_end(connection, task, minutes)
    if eta is None:
        return None
    return {
        "at": time_to_wire(datetime.now(UTC) + timedelta(seconds=eta.seconds)),
        "seconds": round(eta.seconds, 1),
        "lowSeconds": round(eta.low_seconds, 1),
        "highSeconds": round(eta.high_seconds, 1),
        "itemsPerSecond": round(eta.items_per_second, 3),
    }
