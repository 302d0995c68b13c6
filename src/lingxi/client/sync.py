"""A blocking face of the client, for scripts and notebooks: the same calls, run on a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from lingxi.client.client import Client
from lingxi.client.frames import Frame
from lingxi.client.model import Item, Json, Page, Task
from lingxi.client.sync_albums import SyncAlbums

T = TypeVar("T")


class SyncClient:
    """Not for use inside a running event loop, nor from two threads at once."""

    def __init__(self, url: str, token: str | None) -> None:
        self._runner = asyncio.Runner()
        self._client = self._run(_make(url, token))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._run(self._client.close())
        self._runner.close()

    def submit(
        self,
        type: str,
        items: Sequence[Mapping[str, Any]],
        *,
        metadata: Any = None,
        priority: str | None = None,
        idempotency_key: str | None = None,
    ) -> Task:
        return self._run(
            self._client.submit(
                type,
                items,
                metadata=metadata,
                priority=priority,
                idempotency_key=idempotency_key,
            )
        )

    def get(self, task_id: str) -> Task:
        return self._run(self._client.get(task_id))

    def list(self, *, limit: int = 50, cursor: str | None = None, **filters: str) -> Page:
        return self._run(self._client.list(limit=limit, cursor=cursor, **filters))

    def items(self, task_id: str, *, state: str | None = None) -> Iterator[Item]:
        return self._iterate(self._client.items(task_id, state=state))

    def cancel(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        return self._run(self._client.cancel(task_id, idempotency_key=idempotency_key))

    def set_priority(self, task_id: str, priority: str) -> Task:
        return self._run(self._client.set_priority(task_id, priority))

    def retry_failed(
        self,
        task_id: str,
        *,
        only: Sequence[str] | None = None,
        canary: bool = False,
        idempotency_key: str | None = None,
    ) -> Task:
        return self._run(
            self._client.retry_failed(task_id, only=only, canary=canary, idempotency_key=idempotency_key)
        )

    def watch(self, task_id: str, *, last_event_id: str | None = None) -> Iterator[Frame]:
        return self._iterate(self._client.watch(task_id, last_event_id=last_event_id))

    @property
    def albums(self) -> SyncAlbums:
        """Albums, their photos and share links."""
        return SyncAlbums(self._client.albums, self._run, self._iterate)

    def put_object(self, name: str, content: bytes | Path) -> Json:
        return self._run(self._client.put_object(name, content))

    def archive_keys(self) -> Sequence[Json]:
        return self._run(self._client.archive_keys())

    def get_object(self, name: str) -> Iterator[bytes]:
        return self._iterate(self._client.get_object(name))

    def _run(self, call: Awaitable[T]) -> T:
        async def wait() -> T:
            return await call

        return self._runner.run(wait())

    def _iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        end = object()

        async def following() -> T | object:
            return await anext(source, end)

        while (value := self._runner.run(following())) is not end:
            yield value  # type: ignore[misc]


async def _make(url: str, token: str | None) -> Client:
    return Client(url, token)
