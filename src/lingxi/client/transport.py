"""One exchange with the server: what is repeated when the network fails, and what an answer must be."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from lingxi.client.errors import ApiError, Unreachable
from lingxi.client.model import Json, Page
from lingxi.client.watch import SILENCE_SECONDS, OpenStream

CONNECT_TIMEOUT_SECONDS = 5.0
ANSWER_TIMEOUT_SECONDS = 60.0


class Transport:
    """Requests below `/api/v1/` of one server, with one token."""

    def __init__(self, url: str, token: str | None, *, network_tries: int) -> None:
        """ValueError for a URL without a scheme or host."""
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

    async def close(self) -> None:
        await self._http.aclose()

    def stream_opener(self, path: str) -> OpenStream:
        """Opens the event stream at `path` from a given id on."""

        def open_stream(resume_from: str | None) -> Any:
            headers = {"Accept": "text/event-stream"}
            if resume_from is not None:
                headers["Last-Event-ID"] = resume_from
            timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_TIMEOUT_SECONDS)
            return self._http.stream("GET", path, headers=headers, timeout=timeout)

        return open_stream

    async def download(self, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """The body of a GET, in chunks. ApiError unless it is 200 or, with a Range, 206."""
        try:
            async with self._http.stream("GET", path, headers=headers) as response:
                if response.status_code not in (200, 206):
                    raise ApiError.from_answer(response.status_code, response.headers, await response.aread())
                async for chunk in response.aiter_raw():
                    yield chunk
        except httpx.TransportError as error:
            raise self.unreachable(error) from error

    async def page(
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
        answer = await self.ask("GET", path, query=query)
        return Page(answer[key], answer.get("nextCursor"))

    async def post(self, path: str, body: Any, idempotency_key: str | None = None) -> Json:
        """POST with an Idempotency-Key; `body` is sent as JSON unless it is None."""
        return await self.ask("POST", path, body, headers={"Idempotency-Key": idempotency_key or new_key()})

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """The JSON object that is the answer."""
        content = b""
        if body is not None:
            headers = {**(headers or {}), "Content-Type": "application/json"}
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
            content = text.encode(errors="surrogatepass")
        return as_object(await self.send(method, path, query=query, headers=headers, body=lambda: content))

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        tries: int | None = None,
    ) -> httpx.Response:
        """Sends, repeats what is safe to repeat (every call here is idempotent or carries its key), and answers
        only 2xx. `body` makes the content anew for each try."""
        tries = tries or self._network_tries
        for remaining in reversed(range(tries)):
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
                    raise self.unreachable(error) from error
            except httpx.InvalidURL as error:
                raise ValueError(f"{path!r} cannot be part of an address") from error
            else:
                if response.is_success:
                    return response
                if response.status_code not in (502, 503, 504) or not remaining:
                    raise ApiError.from_answer(response.status_code, response.headers, response.content)
            done = tries - 1 - remaining
            await asyncio.sleep(0.2 * 2**done * random.uniform(0.8, 1.2))
        raise AssertionError("the number of tries is at least 1")

    def unreachable(self, error: httpx.TransportError) -> Unreachable:
        """What to tell of a connection that could not be made or was lost."""
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return Unreachable(
                    f"Nothing answers at {self.url}: is the server up, and is this its address?"
                )
            case httpx.TimeoutException():
                return Unreachable(f"The server at {self.url} did not answer in time")
            case _:
                return Unreachable(f"The connection to {self.url} was lost before the answer came")


def new_key() -> str:
    """An Idempotency-Key that nobody else has."""
    return str(uuid.uuid4())


def as_object(response: httpx.Response) -> Json:
    """The JSON object of an answer; Unreachable when it is none, and so not this service's."""
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unreachable(f"What answers at {response.url.host}:{response.url.port} is not this service")
    return answer
