"""Which queues BullMQ itself holds back: its own mark in the queue's `meta`, which workers in every language heed."""

from __future__ import annotations

from collections.abc import Sequence

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors


async def paused_queues(client: RedisClient, queues: Sequence[str]) -> set[str]:
    """Those of the logical queues that bear the mark. One round trip. Raises BrokerUnavailable."""
    with broker_errors():
        async with client.pipeline(transaction=False) as pipe:
            for queue in queues:
                pipe.hexists(f"bull:{names.physical_queue(queue)}:meta", "paused")
            marks = await pipe.execute()
    return {queue for queue, marked in zip(queues, marks, strict=True) if marked}
