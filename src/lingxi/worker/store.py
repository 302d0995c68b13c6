"""PostgreSQL as a worker uses it: a few hot connections for claims and endings, others for processors' transactions.

Pools are opened empty, so a worker starts, and waits, while PostgreSQL is away.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from lingxi.db.query import sql
from lingxi.db.session import (
    LONGEST_IDLE,
    Connection,
    Pool,
    create_pool,
    is_conflict,
    is_unavailable,
    transaction,
)
from lingxi.domain.decide import Succeeded, decide
from lingxi.domain.errors import Transient
from lingxi.observability.logging import get_logger
from lingxi.processors.contract import Attempt, Item
from lingxi.services.claim_items import ItemKey
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.guard_attempt import Superseded, guard_attempt
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
            database_url,
            name=f"lingxi processor {name}",
            min_size=0,
            max_size=_PROCESSOR_CONNECTIONS,
            patient=True,
        )
        return cls(hot, calm, outage)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """For one statement that is a transaction of its own; the end of an outage is noticed here."""
        async with self._hot.acquire() as connection:
            yield connection
        self._outage.ended()

    @asynccontextmanager
    async def guarded(
        self, item: Item, attempt: Attempt, result: Callable[[], Succeeded | None] = lambda: None
    ) -> AsyncIterator[Connection]:
        """A processor's transaction: commits only while `attempt` owns `item`. Transient while PostgreSQL is away,
        and when it lost against another transaction (deadlock, serialization).

        With a `result` at the end of the block the same commit ends the item.
        """
        of_processor: BaseException | None = None
        try:
            async with transaction(self._calm, acquire_timeout_seconds=_ACQUIRE_SECONDS) as connection:
                try:
                    yield connection
                except OSError as error:  # of its own doing: asyncpg has other classes for a lost connection
                    of_processor = error
                    raise
                await connection.fetchval(
                    sql("session/commit_soon"), LONGEST_IDLE
                )  # it is about to lock rows of ours
                if (succeeded := result()) is not None:
                    await _finish(connection, item, attempt, succeeded)
                else:
                    await guard_attempt(connection, item.task_id, item.index + 1, attempt.id)
        except Exception as error:
            if is_unavailable(error) and error is not of_processor:
                self._outage.began(error)
                raise Transient("database_unavailable") from None
            if is_conflict(error):
                raise Transient("database_conflict") from None
            raise

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """For a processor's reading. Transient while PostgreSQL is away."""
        try:
            async with self._calm.acquire(timeout=_ACQUIRE_SECONDS) as connection:
                yield connection
        except Exception as error:
            if is_unavailable(error):
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


async def _finish(connection: Connection, item: Item, attempt: Attempt, succeeded: Succeeded) -> None:
    """End the item in the open transaction: the last thing in it, since it locks the task's row."""
    key = ItemKey(item.task_id, item.index + 1)
    ending = Ending(key, attempt.id, decide(succeeded, attempt=attempt.number, max_attempts=attempt.number))
    finished = (await finish_items(connection, [ending])).get((key, attempt.id))
    if finished is None or finished.verdict != "accepted":
        raise Superseded(f"attempt {attempt.id} does not own item {item.id}")
