"""redis-py clients for everything that is not the hot path: heartbeats, hints, counts, the lock.

redis-py's own defaults do not fit: 5 s of socket time-out equal BullMQ's block of 5 s, so that an idle worker went
deaf, and its retries held an `add` for 30 s in an outage. Ours give up soon; who may wait tries again by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from lingxi.broker.errors import (
    BrokerError,
    BrokerTimeout,
    BrokerUnavailable,
    is_closed_transport,
    means_unavailable,
)

RedisClient = redis.asyncio.Redis

API_TIMEOUT_SECONDS = 1.0
WORKER_TIMEOUT_SECONDS = 5.0


def api_client(url: str, *, max_connections: int = 50) -> RedisClient:
    """For request handlers: an answer or BrokerUnavailable within about a second."""
    return _client(url, API_TIMEOUT_SECONDS, retries=1, max_connections=max_connections)


def worker_client(url: str, *, max_connections: int = 20) -> RedisClient:
    """For loops that come again anyhow: patient with a slow server, quick to see that one is gone."""
    return _client(url, WORKER_TIMEOUT_SECONDS, retries=1, max_connections=max_connections)


def _client(url: str, timeout_seconds: float, *, retries: int, max_connections: int) -> RedisClient:
    return redis.asyncio.Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=1.0,
        socket_keepalive=True,
        driver_info=None,  # no CLIENT SETINFO: a round trip that nobody reads, and a right that Redis 7.0 does not know
        max_connections=max_connections,
        # One more try covers a connection of the pool that died while it was idle.
        retry=Retry(ExponentialWithJitterBackoff(cap=0.1, base=0.02), retries),
        retry_on_error=[RedisConnectionError],
    )


@contextlib.contextmanager
def broker_errors() -> Iterator[None]:
    """Turns redis-py's exceptions into this package's."""
    try:
        yield
    except RedisTimeoutError as error:
        raise BrokerTimeout(f"Redis did not answer in time: {error}") from error
    except (RedisConnectionError, AuthenticationError, NoPermissionError) as error:
        raise BrokerUnavailable(f"Redis is unavailable: {error}") from error
    except (BusyLoadingError, OutOfMemoryError, ReadOnlyError) as error:
        raise BrokerUnavailable(f"Redis cannot serve now: {error}") from error
    except RedisError as error:
        message = str(error)
        raise (BrokerUnavailable if means_unavailable(message) else BrokerError)(message) from error
    except OSError as error:
        raise BrokerUnavailable(f"Redis is unavailable: {error}") from error
    except RuntimeError as error:
        if not is_closed_transport(error):
            raise
        raise BrokerUnavailable("the connection to Redis was lost") from error


async def ping(client: RedisClient) -> None:
    """Raises BrokerUnavailable unless the server answers."""
    with broker_errors():
        await client.ping()
