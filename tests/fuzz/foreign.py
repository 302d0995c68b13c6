"""Jobs that another client could put into our queues, written as Redis keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio

from lingxi.names import physical_queue

FIELDS: dict[bytes, bytes] = {
    b"name": b"item", b"data": b"{}", b"opts": b'{"attempts":1,"delay":0}', b"timestamp": b"1700000000000",
    b"delay": b"0", b"priority": b"0",
}  # fmt: skip


@dataclass(frozen=True)
class Foreign:
    """`fields` besides the usual ones; None leaves one out. `place`: the list or set where the id stands, with its score."""

    id: bytes
    fields: Mapping[bytes, bytes | None] = field(default_factory=dict)
    place: str = "wait"
    score: str = "0"
    key: str = "hash"  # or: none, string, list


@asynccontextmanager
async def queue_of(redis_url: str, queue: str = "demo:drill") -> AsyncIterator[Queue]:
    async with redis.asyncio.from_url(redis_url) as client:
        yield Queue(client, f"bull:{physical_queue(queue)}:".encode())


class Queue:
    """A queue as anybody sees it who has the address of our Redis."""

    def __init__(self, client: Any, prefix: bytes) -> None:
        self.client, self.prefix = client, prefix

    async def put(self, job: Foreign) -> None:
        """The job, and a ring for it, at once."""
        key = self.prefix + job.id
        async with self.client.pipeline(transaction=True) as pipe:
            if job.key == "hash":
                fields = {**FIELDS, **job.fields}
                pipe.hset(key, mapping={name: value for name, value in fields.items() if value is not None})
            elif job.key == "string":
                pipe.set(key, b"x")
            elif job.key == "list":
                pipe.rpush(key, b"x")
            if job.place in ("prioritized", "delayed"):
                pipe.execute_command("ZADD", self.prefix + job.place.encode(), job.score, job.id)
            else:
                pipe.lpush(self.prefix + job.place.encode(), job.id)
            pipe.execute_command("ZADD", self.prefix + b"marker", 0, "0")
            await pipe.execute()

    async def failed(self, job_id: bytes) -> bytes | None:
        """Why a job is among the failed ones; None when it is not there."""
        if await self.client.zscore(self.prefix + b"failed", job_id) is None:
            return None
        return await self.client.hget(self.prefix + job_id, b"failedReason") or b""

    async def places(self, job_id: bytes) -> list[str]:
        """Where the id still stands."""
        lists, sets = ("wait", "active", "paused"), ("prioritized", "delayed", "failed")
        looks = {name: self.client.lpos(self.prefix + name.encode(), job_id) for name in lists}
        looks |= {name: self.client.zscore(self.prefix + name.encode(), job_id) for name in sets}
        return [name for name, look in looks.items() if await look is not None]
