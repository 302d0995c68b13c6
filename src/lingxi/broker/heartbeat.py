"""Workers' heartbeats: one key a logical queue, written by the queue's own consume loop, aged by Redis's clock."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors

# The server's time goes in by the server itself: workers' clocks differ.
_BEAT = """
local time = redis.call('TIME')
local at_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('SET', KEYS[1], cjson.encode({worker = ARGV[1], atMs = at_ms, canaries = ARGV[3] == '1'}), 'EX', ARGV[2])
return at_ms
"""


class Heartbeats:
    """Writes and reads `lingxi:worker:heartbeat:<queue>`: {"worker", "atMs", "canaries": it answers canaries}."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._beat = client.register_script(_BEAT)

    async def beat(
        self,
        queue: str,
        worker: str,
        ttl_seconds: int = names.HEARTBEAT_TTL_SECONDS,
        *,
        canaries: bool = False,
    ) -> None:
        """Say that `worker` serves `queue` now, and whether it answers canaries. Raises BrokerUnavailable."""
        key = names.HEARTBEAT_KEY.format(queue=queue)
        with broker_errors():
            await self._beat(keys=[key], args=[worker, ttl_seconds, int(canaries)])

    async def ages(self, queues: Sequence[str]) -> dict[str, float | None]:
        """Seconds since the last beat of each queue; None when its key is missing. Raises BrokerUnavailable."""
        if not queues:
            return {}
        with broker_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.time()
                pipe.mget([names.HEARTBEAT_KEY.format(queue=queue) for queue in queues])
                (seconds, microseconds), beats = await pipe.execute()
        now_ms = seconds * 1000 + microseconds // 1000
        return {queue: _age_seconds(beat, now_ms) for queue, beat in zip(queues, beats, strict=True)}


def _age_seconds(beat: str | None, now_ms: int) -> float | None:
    try:
        return None if beat is None else max(0.0, (now_ms - orjson.loads(beat)["atMs"]) / 1000)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None  # somebody else wrote there: that is no heartbeat
