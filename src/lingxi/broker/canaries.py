"""Where canaries may go, whether one is the next job in line, and how one is taken back: plain looks at BullMQ's keys."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors
from lingxi.broker.job import is_canary

_MOST_IN_FRONT = (
    20  # one is sent after the one before was taken back; others come back from workers that stop
)


class Canaries:
    """All methods raise BrokerUnavailable."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def welcome(self, queues: Sequence[str]) -> list[str]:
        """Of these queues, those that are not paused and have a worker that knows what a canary is."""
        if not queues:
            return []
        with broker_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                for queue in queues:
                    pipe.hexists(_key(queue, "meta"), "paused")
                pipe.mget([names.HEARTBEAT_KEY.format(queue=queue) for queue in queues])
                *paused, beats = await pipe.execute()
        return [
            queue
            for queue, is_paused, beat in zip(queues, paused, beats, strict=True)
            if not is_paused and _knows_canaries(beat)
        ]

    async def is_next(self, queue: str) -> bool:
        """Is a canary the job that whoever takes one gets?"""
        with broker_errors():
            first = await self._client.lindex(_key(queue, "wait"), -1)
        return first is not None and is_canary(str(first))

    async def withdraw(self, queues: Sequence[str]) -> None:
        """Remove the canaries that wait in these queues, always in front; a worker that has taken one keeps it."""
        if not queues:
            return
        places = [(queue, waiting) for queue in queues for waiting in ("wait", "paused")]
        with broker_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                for queue, waiting in places:
                    pipe.lrange(_key(queue, waiting), -_MOST_IN_FRONT, -1)
                fronts = await pipe.execute()
            for (queue, waiting), front in zip(places, fronts, strict=True):
                for job_id in filter(is_canary, front):
                    if await self._client.lrem(_key(queue, waiting), -1, job_id):
                        await self._client.delete(_key(queue, job_id))


def _key(queue: str, part: str) -> str:
    return f"bull:{names.physical_queue(queue)}:{part}"


def _knows_canaries(beat: str | None) -> bool:
    try:
        return beat is not None and orjson.loads(beat).get("canaries") is True
    except (orjson.JSONDecodeError, AttributeError):
        return False
