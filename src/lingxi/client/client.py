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
import json
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from lingxi.client.errors import ApiError, Unreachable
from lingxi.client.frames import Frame
from lingxi.client.model import Item, Json, Page, Task
from lingxi.client.watch import SILENCE_SECONDS, Watcher

CONNECT_TIMEOUT_SECONDS = 5.0
ANSWER_TIMEOUT_SECONDS = 60.0
NETWORK_TRIES = 3
UPLOAD_CHUNK_BYTES = 256 * 1024
MAX_PAGE_ROWS = 500


class Client:
    """Talks to one server with one token. Safe for concurrent use on one event loop; close it when done."""

    def __init__(self, url: str, token: str | None, *, network_tries: int = NETWORK_TRIES) -> None:
        """`url` is the server's root (`http://host:3000`); a URL without a scheme or host raises ValueError."""
        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"{url!r} is not an http or https address")
        self.url = url.rstrip("/")
        self._network_tries = network_tries
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.AsyncClient(
            base_url=f"{self.url}/api/v1/",
            headers={**headers, "User-Agent": "lingxi-client"},
            timeout=httpx.Timeout(ANSWER_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
            limits=httpx.Limits(max_connections=100),
            trust_env=False,
        )

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
        await self._http.aclose()

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
        return Task.from_wire(await self._post("media-tasks", body, idempotency_key))

    async def get(self, task_id: str) -> Task:
        return Task.from_wire(await self._json("GET", _task_path(task_id)))

    async def list(self, *, limit: int = 50, cursor: str | None = None, **filters: str) -> Page:
        """One page of tasks, newest first. `filters` are the API's query parameters (`status`, `type`, …)."""
        return await self._page("media-tasks", "tasks", limit, cursor, filters)

    async def items(
        self, task_id: str, *, state: str | None = None, limit: int = MAX_PAGE_ROWS
    ) -> AsyncIterator[Item]:
        """Every item of a task in order of index, with its attempts, page by page."""
        cursor: str | None = None
        while True:
            filters = {"state": state} if state else {}
            page = await self._page(f"{_task_path(task_id)}/items", "items", limit, cursor, filters)
            for row in page.rows:
                yield Item.from_wire(row)
            if (cursor := page.next_cursor) is None:
                return

    async def cancel(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        """Cancels what has not started. ApiError 40901 if the task had already ended otherwise."""
        return Task.from_wire(await self._post(f"{_task_path(task_id)}/cancel", None, idempotency_key))

    async def retry_failed(self, task_id: str, *, idempotency_key: str | None = None) -> Task:
        """Queues the failed items again, as a new round. ApiError 40901 if nothing has failed."""
        return Task.from_wire(await self._post(f"{_task_path(task_id)}/retry-failed", None, idempotency_key))

    def watcher(
        self,
        task_id: str,
        *,
        last_event_id: str | None = None,
        patience_seconds: float | None = 60.0,
    ) -> Watcher:
        """A watch whose `last_event_id` can be read at any time, to go on from there later."""

        def open_stream(resume_from: str | None) -> Any:
            headers = {"Accept": "text/event-stream"}
            if resume_from is not None:
                headers["Last-Event-ID"] = resume_from
            timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_TIMEOUT_SECONDS)
            return self._http.stream("GET", f"{_task_path(task_id)}/events", headers=headers, timeout=timeout)

        async def get_task() -> Task:
            return await self.get(task_id)

        return Watcher(
            open_stream,
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

        response = await self._send("PUT", f"objects/{quote(name, safe='')}", headers=headers, body=body)
        return _object(response)

    async def get_object(self, name: str) -> AsyncIterator[bytes]:
        """The object's bytes, in chunks."""
        try:
            async with self._http.stream("GET", f"objects/{quote(name, safe='')}") as response:
                if response.status_code != 200:
                    raise ApiError.from_answer(response.status_code, response.headers, await response.aread())
                async for chunk in response.aiter_raw():
                    yield chunk
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    # ── one exchange ─────────────────────────────────────────────────────────────────────────────────────
    async def _page(
        self,
        path: str,
        key: str,
        limit: int,
        cursor: str | None,
        filters: Mapping[str, str],
    ) -> Page:
        query = {"limit": str(limit), **filters}
        if cursor is not None:
            query["cursor"] = cursor
        answer = await self._json("GET", path, query=query)
        return Page(answer[key], answer.get("nextCursor"))

    async def _post(self, path: str, body: Any, idempotency_key: str | None) -> Json:
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        content = b""
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
                errors="surrogatepass"
            )
        return _object(await self._send("POST", path, headers=headers, body=lambda: content))

    async def _json(self, method: str, path: str, *, query: Mapping[str, str] | None = None) -> Json:
        return _object(await self._send(method, path, query=query))

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> httpx.Response:
        """Sends, repeats what is safe to repeat (every call here is idempotent or carries its key), and answers
        only 2xx. `body` makes the content anew for each try."""
        for remaining in reversed(range(self._network_tries)):
            try:
                response = await self._http.request(
                    method,
                    path,
                    params=query,
                    headers=headers,
                    content=body() if body else None,
                )
            except httpx.TransportError as error:
                if not remaining:
                    raise self._unreachable(error) from error
            except httpx.InvalidURL as error:
                raise ValueError(f"{path!r} cannot be part of an address") from error
            else:
                if response.is_success:
                    return response
                if response.status_code not in (502, 503, 504) or not remaining:
                    raise ApiError.from_answer(response.status_code, response.headers, response.content)
            done = self._network_tries - 1 - remaining
            await asyncio.sleep(0.2 * 2**done * random.uniform(0.8, 1.2))
        raise AssertionError("network_tries is at least 1")

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return Unreachable(
                    f"Nothing answers at {self.url}: is the server up, and is this its address?"
                )
            case httpx.TimeoutException():
                return Unreachable(f"The server at {self.url} did not answer in time")
            case _:
                return Unreachable(f"The connection to {self.url} was lost before the answer came")


def _task_path(task_id: str) -> str:
    return f"media-tasks/{quote(task_id, safe='')}"


def _object(response: httpx.Response) -> Json:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unreachable(f"What answers at {response.url.host}:{response.url.port} is not this service")
    return answer


async def _file_chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, UPLOAD_CHUNK_BYTES):
            yield chunk
