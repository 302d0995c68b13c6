"""PostgreSQL as a worker uses it: a few hot connections for claims and endings, others for processors' transactions.

Pools are opened empty, so a worker starts, and waits, while PostgreSQL is away.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lingxi.db.session import Connection, Pool, create_pool, is_unavailable, transaction
from lingxi.domain.errors import Transient
from lingxi.observability.logging import get_logger
from lingxi.processors.contract import Attempt, Item
from lingxi.services.guard_attempt import guard_attempt
from lingxi.worker.outage import Outage

_HOT_CONNECTIONS = 6
_PROCESSOR_CONNECTIONS = 6
_ACQUIRE_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
_log = get_logger("worker.store")


class Store:
    """Connections of one worker process."""

    def __init__(self, hot: Pool, calm: Pool, outage: Outage) -> None:
        self._hot, self._calm, self._outage = hot, calm, outage

    @classmethod
    async def open(cls, database_url: str, name: str, outage: Outage) -> "Store":
        """No connection is made yet."""
        hot = await create_pool(
            database_url, name=f"lingxi worker {name}", min_size=0, max_size=_HOT_CONNECTIONS, hot=True
        )
        calm = await create_pool(
            database_url, name=f"lingxi processor {name}", min_size=0, max_size=_PROCESSOR_CONNECTIONS
        )
        return cls(hot, calm, outage)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """For one statement that is a transaction of its own; the end of an outage is noticed here."""
        async with self._hot.acquire() as connection:
            yield connection
        self._outage.ended()

    @asynccontextmanager
    async def guarded(self, item: Item, attempt: Attempt) -> AsyncIterator[Connection]:
        """A processor's transaction: commits only while `attempt` owns `item`. Transient while PostgreSQL is away."""
        of_processor: BaseException | None = None
        try:
            async with transaction(self._calm, acquire_timeout_seconds=_ACQUIRE_SECONDS) as connection:
                try:
                    yield connection
                except OSError as error:  # of its own doing: asyncpg has other classes for a lost connection
                    of_processor = error
                    raise
                await guard_attempt(connection, item.task_id, item.index + 1, attempt.id)
        except Exception as error:
            if is_unavailable(error) and error is not of_processor:
                self._outage.began(error)
                raise Transient("database_unavailable") from None
            raise

    async def close(self) -> None:
        """Close all connections; whoever still uses one is cut off."""
        for pool in (self._hot, self._calm):
            try:
                await asyncio.wait_for(pool.close(), _CLOSE_SECONDS)
            except TimeoutError:
                pool.terminate()
            except Exception as error:
                _log.warning("close_failed", what="postgres", reason=str(error))
