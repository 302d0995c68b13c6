"""Connections to PostgreSQL: pools, and what "PostgreSQL cannot serve now" looks like.

Hot connections (workers, dispatcher) plan once and for keys: a generic plan made while a table is empty would scan it
for ever (measured, `docs/benchmarks.md`).
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from lingxi.db.pooler import connection_class, split_dsn

Connection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy
Pool = asyncpg.Pool
Record = asyncpg.Record
UniqueViolation = asyncpg.UniqueViolationError
LockNotAvailable = asyncpg.LockNotAvailableError

HOT_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

# A process that is frozen, or behind a broken network, would keep the locks of its open transaction for ever: a task's, an
# event's, the sweep's. Ours wait for nothing but PostgreSQL (a dispatcher's also five seconds for Redis).
# In the midst of a statement this does not count: see `maintenance/session_watch.py`.
LONGEST_IDLE_SECONDS = 20.0
LONGEST_IDLE = f"{LONGEST_IDLE_SECONDS:.0f}s"
IDLE_SETTINGS = {"idle_in_transaction_session_timeout": LONGEST_IDLE}

# The server, the network or its present load is at fault, not the statement.
UNAVAILABLE: tuple[type[BaseException], ...] = (
    OSError,
    TimeoutError,
    ssl.SSLError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process was frozen meanwhile
    asyncpg.PostgresSystemError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InternalClientError,  # the driver's own state, on a connection that was lost while it was being used
)
# The statement met others: doing the whole transaction again is right.
CONFLICTS: tuple[type[BaseException], ...] = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
# One value of a statement cannot be stored; the others of its batch can.
BAD_DATA: tuple[type[BaseException], ...] = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)


def is_unavailable(error: BaseException) -> bool:
    """Does this error say that PostgreSQL cannot serve now (so that nothing is charged and one tries again)?

    asyncpg.DataError is an InterfaceError too when it was raised by an encoder of the client: that is bad data.
    """
    return (
        isinstance(error, UNAVAILABLE)
        and not isinstance(error, BAD_DATA)
        and not _is_client_data_error(error)
    )


def is_conflict(error: BaseException) -> bool:
    """Did the transaction lose against another (deadlock, serialization), so that the whole of it may be done again?"""
    return isinstance(error, CONFLICTS)


def is_bad_data(error: BaseException) -> bool:
    """Does this error blame a value of the statement?"""
    return isinstance(error, BAD_DATA) or _is_client_data_error(error)


def _is_client_data_error(error: BaseException) -> bool:
    return isinstance(error, asyncpg.exceptions._base.InterfaceError) and isinstance(error, ValueError)


async def connect(
    dsn: str, *, name: str, hot: bool = False, timeout_seconds: float = 10.0
) -> asyncpg.Connection:
    """One connection outside any pool; `name` shows in pg_stat_activity. A `hot` one ends when a transaction idles in it."""
    return await asyncpg.connect(
        **_options(dsn, name, hot, patient=not hot), timeout=timeout_seconds, command_timeout=60
    )


async def create_pool(
    dsn: str,
    *,
    name: str,
    min_size: int = 1,
    max_size: int = 10,
    hot: bool = False,
    patient: bool = False,
    command_timeout_seconds: float = 60,
) -> Pool:
    """A pool of at most `max_size` connections; raises as `connect` when the server is away.

    `patient`: its transactions may wait for something else than PostgreSQL, and be idle for as long as they like.
    A statement that takes longer than `command_timeout_seconds` ends with TimeoutError: the server hangs.
    """
    pool = asyncpg.create_pool(
        **_options(dsn, name, hot, patient),
        min_size=min_size,
        max_size=max_size,
        timeout=10,
        command_timeout=command_timeout_seconds,
        reset=_nothing_to_reset,
    )
    await pool
    return pool


async def _nothing_to_reset(connection: Connection) -> None:
    """Nobody here sets anything for a session, so the round trip that asyncpg resets with buys nothing (it still rolls back)."""


@asynccontextmanager
async def transaction(pool: Pool, *, acquire_timeout_seconds: float = 5.0) -> AsyncIterator[Connection]:
    """A connection with an open transaction: committed when the block ends, rolled back when it raises."""
    async with pool.acquire(timeout=acquire_timeout_seconds) as connection, connection.transaction():
        yield connection


def _options(dsn: str, name: str, hot: bool, patient: bool) -> dict[str, Any]:
    """What both ways to connect are given. A pooler in transaction mode takes few settings of a session."""
    address, through_pooler = split_dsn(dsn)
    known = {"application_name": name, "timezone": "UTC"}
    settings = {**(HOT_SETTINGS if hot else {}), **({} if patient else IDLE_SETTINGS)}
    if not through_pooler:
        return {"dsn": address, "server_settings": {**known, **settings}}
    return {
        "dsn": address,
        "server_settings": known,
        "statement_cache_size": 0,
        "connection_class": connection_class(settings),
    }
