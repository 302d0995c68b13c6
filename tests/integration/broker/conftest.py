"""Queues on the test's Redis, closed at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from lingxi.broker.client import RedisClient, api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.queue import BullQueue

MakeQueue = Callable[..., BullQueue]


@pytest.fixture
async def make_queue(redis_url: str) -> AsyncIterator[MakeQueue]:
    """`make_queue(token=…, url=…, …)`: another client of the queue `demo:drill`."""
    made: list[BullQueue] = []

    def make(
        token: str = "worker-1", *, url: str = redis_url, timeout_seconds: float = 5.0, **options: int
    ) -> BullQueue:
        factory = connection_factory(url, timeout_seconds=timeout_seconds)
        made.append(BullQueue("demo:drill", factory, token=token, **options))
        return made[-1]

    yield make
    for queue in made:
        await queue.close()


@pytest.fixture
async def queue(make_queue: MakeQueue) -> BullQueue:
    return make_queue()


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[RedisClient]:
    opened = api_client(redis_url)
    yield opened
    await opened.aclose()
