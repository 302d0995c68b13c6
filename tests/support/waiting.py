"""Wait for a fact, never for time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


class FactNeverCame(AssertionError):
    """The fact did not become true in time."""


async def wait_until(
    fact: Callable[[], T | Awaitable[T]], timeout_seconds: float = 15.0, message: str = ""
) -> T:
    """Call `fact` (plain or async) until it answers something true, and give that answer.

    Raises `FactNeverCame` with the last answer after `timeout_seconds`.
    """
    end = time.monotonic() + timeout_seconds
    while True:
        answer = fact()
        value: T = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() > end:
            raise FactNeverCame(_sentence(fact, value, timeout_seconds, message))
        await asyncio.sleep(POLL_SECONDS)


def wait_until_sync(fact: Callable[[], T], timeout_seconds: float = 15.0, message: str = "") -> T:
    """The same without an event loop, for tests of processes from outside."""
    end = time.monotonic() + timeout_seconds
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() > end:
            raise FactNeverCame(_sentence(fact, value, timeout_seconds, message))
        time.sleep(POLL_SECONDS)


def _sentence(fact: object, value: object, timeout_seconds: float, message: str) -> str:
    name = message or getattr(fact, "__qualname__", repr(fact))
    return f"not true within {timeout_seconds} s: {name}; the last answer was {value!r}"
