"""The numbers of all processes, added up in one hash of bounded size: a scrape costs the same however full the queues are."""

from __future__ import annotations

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors
from lingxi.broker.errors import BrokerError
from lingxi.observability.tallies import Tallies

# One script, so that a lost answer is the only doubt: either all was added or nothing.
_ADD = "for i = 1, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end"
_BATCH = 500  # Lua takes a bounded number of arguments


class Totals:
    """Adds to and reads `lingxi:totals`."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._add = client.register_script(_ADD)

    async def tell(self, tallies: Tallies) -> None:
        """Add what has grown; best effort: what Redis does not take now is told the next time."""
        fields = list(tallies.take().items())
        while fields:
            batch = fields[:_BATCH]
            try:
                with broker_errors():
                    await self._add(keys=[names.TOTALS_KEY], args=[part for field in batch for part in field])
            except BrokerError:
                tallies.give_back(dict(fields))
                return
            del fields[:_BATCH]

    async def read(self) -> dict[str, int]:
        """All fields. Raises BrokerUnavailable."""
        with broker_errors():
            fields = await self._client.hgetall(names.TOTALS_KEY)
        return {str(field): int(value) for field, value in fields.items()}
