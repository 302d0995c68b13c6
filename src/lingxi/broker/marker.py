"""The wipe marker: a value that we wrote into this Redis, another one with each sweep. Gone means that Redis was wiped, an old
one that it was restored from a copy; whoever keeps the truth in PostgreSQL has to put jobs, pauses and caps back."""

from __future__ import annotations

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors


class WipeMarker:
    """Reads and writes `lingxi:marker`. All methods raise BrokerUnavailable."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def read(self) -> str | None:
        with broker_errors():
            value = await self._client.get(names.MARKER_KEY)
        return None if value is None else str(value)

    async def write(self, value: str) -> None:
        with broker_errors():
            await self._client.set(names.MARKER_KEY, value)
