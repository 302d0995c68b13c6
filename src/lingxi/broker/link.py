"""Keeps one connection: opens it when it is first needed, and anew after it was lost."""

from __future__ import annotations

import asyncio
import random

from lingxi.broker.connection import ConnectionFactory, RawConnection
from lingxi.broker.errors import BrokerUnavailable

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0  # so that an outage of an hour is over for us a second after it is over


class Link:
    """A connection by need. During an outage `get` fails at once between two tries; it never makes its caller wait
    longer than one connect time-out, and tries at most every LONGEST_PAUSE_SECONDS."""

    def __init__(self, factory: ConnectionFactory, name: str) -> None:
        self._factory, self._name = factory, name
        self._connection: RawConnection | None = None
        self._opening = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0
        self._last_failure = ""
        self._closed = False

    async def get(self) -> RawConnection:
        """An open connection. Raises BrokerUnavailable."""
        if (open_now := self._open_now()) is not None:
            return open_now
        async with self._opening:
            if (open_now := self._open_now()) is not None:
                return open_now
            if self._closed:
                raise BrokerUnavailable("this queue was closed")
            now = asyncio.get_running_loop().time()
            if now < self._not_before:
                raise BrokerUnavailable(self._last_failure)
            try:
                self._connection = await self._factory(self._name)
            except BrokerUnavailable as error:
                self._back_off(str(error))
                raise
            self._failures = 0
            return self._connection

    def _open_now(self) -> RawConnection | None:
        return self._connection if self._connection is not None and self._connection.is_open else None

    def _back_off(self, reason: str) -> None:
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._not_before = asyncio.get_running_loop().time() + pause * random.uniform(0.5, 1.0)
        self._last_failure = reason

    @property
    def is_open(self) -> bool:
        return self._open_now() is not None

    def drop(self) -> None:
        """Abandon the connection at once; the next `get` opens another."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            await self._connection.close()


class SharedConnection:
    """A connection factory that gives the same connection to everybody: for one who looks at many queues in turn."""

    def __init__(self, factory: ConnectionFactory, name: str) -> None:
        self._link = Link(factory, name)

    async def __call__(self, name: str) -> RawConnection:
        return await self._link.get()

    def drop(self) -> None:
        """Abandon the connection; calls that wait fail, the next one opens another."""
        self._link.drop()

    async def close(self) -> None:
        await self._link.close()
