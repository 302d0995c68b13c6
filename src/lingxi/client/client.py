"""The Python client of the task protocol.

    async with Client("http://127.0.0.1:3000", token) as client:
        task = await client.submit("media:verify", [{"ref": "a.jpg", "input": {"object": "a.jpg"}}])
        async for frame in client.watch(task.id):
            ...

Every POST carries an Idempotency-Key, and the client's own repeats after a lost connection carry the same one:
a submission is made once, however often its answer is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from lingxi.client.albums import Albums
from lingxi.client.audit import read_audit
from lingxi.client.errors import ApiError
from lingxi.client.frames import Frame
from lingxi.client.model import Item, Json, Page, Task
from lingxi.client.status import Status, read_metrics
from lingxi.client.transport import Transport, as_object
from lingxi.client.watch import Watcher
from lingxi.client.webhooks import Webhooks

NETWORK_TRIES = 3
UPLOAD_CHUNK_BYTES = 256 * 1024
MAX_PAGE_ROWS = 500


class Client:
    """Talks to one server with one token. Safe for concurrent use on one event loop; close it when done."""

    def __init__(self, url: str, token: str | None, *, network_tries: int = NETWORK_TRIES) -> None:
        """`url` is the server's root (`http://host:3000`); a URL without a scheme or host raises ValueError."""
        self._transport = Transport(url, token, network_tries=network_tries)
        self.url = self._transport.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────────────
    async def submit(
        self,
        type: str,
        items: Sequence[Mapping[str, Any]],
        *,
        metadata: Any = None,
        priority: str | None = None,
        idempotency_key: str | None = None,
    ) -> Task:
        """Submits a batch. Each item is `{"input": …, "ref": …}` as on the wire. Raises ApiError, Unreachable."""
        body: Json = {"type": type, "items": list(items)}
        if metadata is not None:
            body["metadata"] = metadata
        if priority is not None:
            body["priority"] = priority
        return await self.submit_body(body, idempotency_key=idempotency_key)

    async def submit_body(self, body: Any, *, idempotency_key: str | None = None) -> Task:
        """Submits a body that is already in the wire's form, unchanged."""
        return Task.from_wire(await self._transport.post("media-tasks", body, idempotency_key))

    async def get(self, task_id: str, *, eta: bool = False) -> Task:
        """With `eta`, `raw["eta"]` says when it will have ended; None: it has, or nothing was measured yet."""
        query = "?eta=true" if eta else ""
        return Task.from_wire(await self._transport.ask("GET", f"{_task_path(task_id)}{query}"))

    async def status(self) -> Status:
        """How the deployment is. Unreachable when the API is; servers behind it that are away are a part of the answer."""
        try:
            health = await self._transport.ask("GET", "health/queues")
        except ApiError as error:
            if error.status != 503:
                raise
            health = {}
        text = b"".join([chunk async for chunk in self._transport.download("metrics")])
        return Status(health, read_metrics(text.decode()))

    async def why(self, path: str) -> dict[str, Any]:
        """Why something waits or failed: `media-tasks/{id}`, `media-tasks/{id}/items/{id}` or `photos/{id}`."""
        return await self._transport.ask("GET", f"{path}/why")

    def audit(self, *, since: str | None = None, until: str | None = None) -> AsyncIterator[Json]:
        """The workspace's audit log, newest first, with an admin's token; times as on the wire."""
        return read_audit(self._transport, since=since, until=until)

    async def list(self, *, limit: int = 50, cursor: str | None = None, **filters: str) -> Page:
        """One page of tasks, newest first. `filters` are the API's query parameters (`status`, `type`, …)."""
        return await self._transport.page("media-tasks", "tasks", limit, cursor, filters)

    async def items(
        self, task_id: str, *, state: str | None = None, limit: int = MAX_PAGE_ROWS
    ) -> AsyncIterator[Item]:
        """Every item of a task in order of index, with its attempts, page by page."""
        cursor: str | None = None
        while True:
            filters = {"state": state} if state else {}
            page = await self._transport.page(f"{_task_path(task_id)}/items", "items", limit, cursor, filters)
            for row in page.rows:
                yield Item.from_wire(row)
            if (cursor := page.next_cursor) is None:
                return

    async def cancel(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        """Cancels what has not started. ApiError 40901 if the task had already ended otherwise."""
        return Task.from_wire(
            await self._transport.post(f"{_task_path(task_id)}/cancel", None, idempotency_key)
        )

    async def set_priority(self, task_id: str, priority: str) -> Task:
        """`live`, `normal` or `bulk`, while it waits. ApiError 40901 if the task has ended."""
        body = {"priority": priority}
        return Task.from_wire(await self._transport.post(f"{_task_path(task_id)}/priority", body))

    async def retry_failed(
        self,
        task_id: str,
        *,
        only: Sequence[str] | None = None,
        canary: bool = False,
        idempotency_key: str | None = None,
    ) -> Task:
        """Queues the failed items again, as a new round. ApiError 40901 if nothing has failed.

        `only`: those that failed with one of these codes. `canary`: first one of each code; the others of a code follow as the
        next round if it succeeds.
        """
        choice: dict[str, Any] = {} if only is None else {"only": list(only)}
        if canary:
            choice["canary"] = True
        return Task.from_wire(
            await self._transport.post(f"{_task_path(task_id)}/retry-failed", choice or None, idempotency_key)
        )

    def watcher(
        self,
        task_id: str,
        *,
        last_event_id: str | None = None,
        patience_seconds: float | None = 60.0,
    ) -> Watcher:
        """A watch whose `last_event_id` can be read at any time, to go on from there later."""

        async def get_task() -> Task:
            return await self.get(task_id)

        return Watcher(
            self._transport.stream_opener(f"{_task_path(task_id)}/events"),
            get_task,
            last_event_id=last_event_id,
            patience_seconds=patience_seconds,
        )

    def watch(
        self,
        task_id: str,
        *,
        last_event_id: str | None = None,
        patience_seconds: float | None = 60.0,
    ) -> AsyncGenerator[Frame, None]:
        """Frames until `End`, reconnecting as needed. `last_event_id="0"` replays every item first."""
        watcher = self.watcher(task_id, last_event_id=last_event_id, patience_seconds=patience_seconds)
        return watcher.frames()

    # ── webhooks ─────────────────────────────────────────────────────────────────────────────────────────
    @property
    def webhooks(self) -> Webhooks:
        """The calls of webhook endpoints."""
        return Webhooks(self._transport)

    # ── albums ───────────────────────────────────────────────────────────────────────────────────────────
    @property
    def albums(self) -> Albums:
        """Albums, their photos, share links and feed."""
        return Albums(self._transport)

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────
    async def put_object(self, name: str, content: bytes | Path) -> Json:
        """Uploads an object and answers what the server stored (name, size, SHA-256). The same bytes again are
        fine; other bytes under a name that exists are ApiError 40901."""
        size_bytes = content.stat().st_size if isinstance(content, Path) else len(content)  # noqa: ASYNC240 - one stat
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(size_bytes),
        }

        def body() -> Any:
            return _file_chunks(content) if isinstance(content, Path) else content

        response = await self._transport.send(
            "PUT", f"objects/{quote(name, safe='')}", headers=headers, body=body
        )
        return as_object(response)

    async def archive_keys(self) -> Sequence[Json]:
        """The public keys of archives' receipts: `id`, `algorithm`, `publicKey`. The first signs now."""
        keys: Sequence[Json] = (await self._transport.ask("GET", "archive-keys"))["keys"]
        return keys

    async def get_object(self, name: str) -> AsyncIterator[bytes]:
        """The object's bytes, in chunks."""
        async for chunk in self._transport.download(f"objects/{quote(name, safe='')}"):
            yield chunk


def _task_path(task_id: str) -> str:
    return f"media-tasks/{quote(task_id, safe='')}"


async def _file_chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, UPLOAD_CHUNK_BYTES):
            yield chunk
