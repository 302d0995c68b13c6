"""The server under test, over HTTP: submit, steer, ask, and open event streams in every way that the contract
knows.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from lingxi.conformance.connection import ConnectionLost, StreamConnection
from lingxi.conformance.model import FINAL_STATUSES, Model
from lingxi.conformance.sse import ProtocolError

Json = dict[str, Any]
API = "/api/v1"


class Refused(Exception):
    """The server answered a request of ours with an error."""


@dataclass(slots=True)
class Server:
    """`url` without a path; `token` is a bearer token with the role editor or more."""

    url: str
    token: str
    http: httpx.AsyncClient

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def call(self, method: str, path: str, **how: Any) -> Any:
        """A request that must succeed; its JSON, if any. Tried again while the server is away or overloaded (503)."""
        how.setdefault("headers", self.authorization)
        for _ in range(60):
            try:
                answer = await self.http.request(method, f"{self.url}{API}{path}", timeout=20, **how)
            except httpx.TransportError:
                await asyncio.sleep(0.5)
                continue
            if answer.status_code != 503:
                break
            await asyncio.sleep(0.5)
        else:
            raise Refused(f"{method} {path}: the server does not answer")
        if answer.status_code >= 400:
            raise Refused(f"{method} {path} was answered {answer.status_code}: {answer.text[:300]}")
        return answer.json() if answer.content else None

    async def submit(self, inputs: Sequence[Json], **fields: Any) -> Json:
        """A task of `demo:drill` with these inputs."""
        items = [{"ref": f"item-{index}", "input": given} for index, given in enumerate(inputs)]
        task: Json = await self.call(
            "POST", "/media-tasks", json={"type": "demo:drill", "items": items, **fields}
        )
        return task

    async def task(self, task_id: str) -> Json:
        task: Json = await self.call("GET", f"/media-tasks/{task_id}")
        return task

    async def items(self, task_id: str) -> list[Json]:
        """All items, page by page."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            parameters = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
            page = await self.call("GET", f"/media-tasks/{task_id}/items", params=parameters)
            found += page["items"]
            cursor = page.get("nextCursor")
            if not cursor:
                return found

    async def steer(self, task_id: str, verb: str) -> Json:
        """`cancel` or `retry-failed`."""
        task: Json = await self.call("POST", f"/media-tasks/{task_id}/{verb}")
        return task

    async def ended(self, task_id: str, timeout_seconds: float = 60) -> Json:
        """The task, once it is final."""
        async with asyncio.timeout(timeout_seconds):
            while (task := await self.task(task_id))["status"] not in FINAL_STATUSES:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return task

    async def run(self, inputs: Sequence[Json]) -> Json:
        """Submit, and answer the final task."""
        return await self.ended((await self.submit(inputs))["id"])

    def events_url(self, task_id: str, **query: str | None) -> str:
        """Where the stream of a task is."""
        pairs = [f"{name}={quote(value, safe='')}" for name, value in query.items() if value is not None]
        return f"{self.url}{API}/media-tasks/{task_id}/events" + (f"?{'&'.join(pairs)}" if pairs else "")

    async def events(
        self,
        task_id: str,
        last_event_id: str | None = None,
        *,
        query_id: str | None = None,
        url: str | None = None,
        headers: dict[str, str] | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> StreamConnection:
        """Open the stream: `last_event_id` goes into the header, `query_id` into the address."""
        sent = {"Accept": "text/event-stream"} | (self.authorization if headers is None else headers)
        if last_event_id is not None:
            sent["Last-Event-ID"] = last_event_id
        return await StreamConnection.open(
            url or self.events_url(task_id, lastEventId=query_id),
            sent,
            receive_buffer_bytes=receive_buffer_bytes,
        )

    async def follow(
        self,
        task_id: str,
        model: Model,
        last_event_id: str | None,
        *,
        url: str | None = None,
        timeout_seconds: float = 90,
    ) -> "Followed":
        """Be a patient client: read, and connect again from the last id, until the end has been told."""
        followed = Followed(model, last_event_id)
        async with asyncio.timeout(timeout_seconds):
            while not model.ended:
                await self._follow_once(task_id, followed, url)
        return followed

    async def _follow_once(self, task_id: str, followed: "Followed", url: str | None) -> None:
        followed.connections += 1
        try:
            async with await self.events(task_id, followed.last_id, url=url) as stream:
                if stream.status == 204:
                    raise ProtocolError(f"204 at id {followed.last_id}, which is not the id of the end")
                if stream.status != 200:
                    followed.refused += 1
                    await asyncio.sleep(0.2)
                    return
                await self._read(stream, followed)
        except (ConnectionLost, OSError, TimeoutError):
            followed.lost += 1
            await asyncio.sleep(0.02)

    async def _read(self, stream: StreamConnection, followed: "Followed") -> None:
        try:
            while not followed.model.ended and (frame := await stream.next(60)) is not None:
                followed.model.apply(frame)
                followed.closings += frame.event == "closing"
        finally:
            if stream.last_id is not None:
                followed.last_id = stream.last_id


@dataclass(slots=True)
class Followed:
    """How it went: what the client knows, where it would resume, and what it met on the way."""

    model: Model
    last_id: str | None
    connections: int = 0
    lost: int = 0
    refused: int = 0
    closings: int = 0
