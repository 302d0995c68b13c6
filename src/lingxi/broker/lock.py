"""The dispatcher's lock. It saves work when there are many dispatchers; it is not what makes them correct."""

from __future__ import annotations

import secrets

from lingxi import names
from lingxi.broker.client import RedisClient, broker_errors

_ACQUIRE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_EXTEND = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"


class DispatchLock:
    """Held by at most one dispatcher at a time, for `ttl_ms` unless extended. All methods raise BrokerUnavailable."""

    def __init__(
        self,
        client: RedisClient,
        ttl_ms: int = names.DISPATCH_LOCK_TTL_MS,
        key: str = names.DISPATCH_LOCK_KEY,
    ) -> None:
        self._client, self._ttl_ms, self._key = client, ttl_ms, key
        self._token = secrets.token_hex(16)
        self._acquire = client.register_script(_ACQUIRE)
        self._release, self._extend = client.register_script(_RELEASE), client.register_script(_EXTEND)

    async def acquire(self) -> bool:
        """Take the lock, or keep it for another TTL if it is ours already; False when somebody else has it."""
        with broker_errors():
            return bool(await self._acquire(keys=[self._key], args=[self._token, self._ttl_ms]))

    async def extend(self) -> bool:
        """A full time to live from now on; False when the lock is no longer ours."""
        with broker_errors():
            return bool(await self._extend(keys=[self._key], args=[self._token, self._ttl_ms]))

    async def release(self) -> None:
        """Let go of the lock, unless it is somebody else's by now."""
        with broker_errors():
            await self._release(keys=[self._key], args=[self._token])


async def is_dispatch_locked(client: RedisClient, key: str = names.DISPATCH_LOCK_KEY) -> bool:
    """Is there a dispatcher at work? Raises BrokerUnavailable."""
    with broker_errors():
        return bool(await client.exists(key))
