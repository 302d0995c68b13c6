"""How many items of a queue completed and failed in the last hour, in buckets of a minute.

Told after the commit, so best effort: a crash in between loses a few, nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors

_BUCKET_TTL_SECONDS = 2 * 3600
_MINUTES = 60
# The bucket is chosen by the server's clock. Its keys are therefore made in the script; our Redis is no cluster.
_ADD = """
local key = ARGV[1] .. math.floor(tonumber(redis.call('TIME')[1]) / 60)
if ARGV[2] ~= '0' then redis.call('HINCRBY', key, 'completed', ARGV[2]) end
if ARGV[3] ~= '0' then redis.call('HINCRBY', key, 'failed', ARGV[3]) end
redis.call('EXPIRE', key, ARGV[4])
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """Items that became final within the last hour."""

    completed: int
    failed: int

    @property
    def failure_ratio(self) -> float:
        """failed / (failed + completed); 0 without samples."""
        total = self.completed + self.failed
        return self.failed / total if total else 0.0


class FinishedCounts:
    """Writes and reads `lingxi:finished:<queue>:<minute>`. All methods raise BrokerUnavailable."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._add = client.register_script(_ADD)

    async def add(self, queue: str, completed: int, failed: int) -> None:
        if completed or failed:
            base = names.FINISHED_COUNTS_KEY.format(queue=queue, minute="")
            with broker_errors():
                await self._add(args=[base, completed, failed, _BUCKET_TTL_SECONDS])

    async def last_hour(self, queues: Sequence[str]) -> dict[str, Finished]:
        """The sums of the current minute and the 59 before it, for each queue."""
        with broker_errors():
            seconds, _ = await self._client.time()
            async with self._client.pipeline(transaction=False) as pipe:
                for queue in queues:
                    for minute in range(seconds // 60 - _MINUTES + 1, seconds // 60 + 1):
                        pipe.hmget(
                            names.FINISHED_COUNTS_KEY.format(queue=queue, minute=minute),
                            ["completed", "failed"],
                        )
                buckets = await pipe.execute()
        return {queue: _sum(buckets[i * _MINUTES : (i + 1) * _MINUTES]) for i, queue in enumerate(queues)}

    async def by_minute(self, queue: str, minutes: int) -> list[int]:
        """How many items of a queue became final in each of the whole minutes before this one, from the first that had any."""
        with broker_errors():
            seconds, _ = await self._client.time()
            async with self._client.pipeline(transaction=False) as pipe:
                for minute in range(seconds // 60 - minutes, seconds // 60):
                    key = names.FINISHED_COUNTS_KEY.format(queue=queue, minute=minute)
                    pipe.hmget(key, ["completed", "failed"])
                buckets = await pipe.execute()
        counts = [sum(int(value or 0) for value in bucket) for bucket in buckets]
        return counts[next((place for place, count in enumerate(counts) if count), len(counts)) :]


def _sum(buckets: list[list[str | None]]) -> Finished:
    return Finished(*(sum(int(bucket[column] or 0) for bucket in buckets) for column in (0, 1)))
