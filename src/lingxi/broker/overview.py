"""How full the queues are, all in one round trip: for health and metrics, which need no queue of their own."""

from __future__ import annotations

from collections.abc import Sequence

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors
from lingxi.broker.queue import QueueCounts

_LISTS = ("wait", "paused", "active")
_SETS = ("prioritized", "delayed", "completed", "failed")


async def queue_counts(client: RedisClient, queues: Sequence[str]) -> dict[str, QueueCounts]:
    """BullMQ's own counts of each logical queue. Raises BrokerUnavailable."""
    with broker_errors():
        async with client.pipeline(transaction=False) as pipe:
            for queue in queues:
                prefix = f"bull:{names.physical_queue(queue)}:"
                for part in _LISTS:
                    pipe.llen(prefix + part)
                for part in _SETS:
                    pipe.zcard(prefix + part)
            numbers = await pipe.execute()
    width = len(_LISTS) + len(_SETS)
    return {queue: _counts(numbers[i * width : (i + 1) * width]) for i, queue in enumerate(queues)}


def _counts(numbers: Sequence[int]) -> QueueCounts:
    wait, paused, active, prioritized, delayed, completed, failed = numbers
    return QueueCounts(wait + paused + prioritized, active, delayed, completed, failed)
