"""What a user sees of a running system, from outside: answers, health, metrics, streams."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx

from tests.support.waiting import wait_until

ASK_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, and the `code` of its problem document (0: none)."""

    status: int
    code: int
    body: Any
    headers: Mapping[str, str]


class Eyes:
    """One user with one token. Nothing is asked again unless it says so."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=ASK_SECONDS
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, token: str) -> AsyncIterator[Eyes]:
        """Once the API answers."""
        eyes = cls(url, token)
        try:
            await wait_until(cast(Any, eyes.serves), 60, "the API serves")
            yield eyes
        finally:
            await eyes._client.aclose()

    async def serves(self) -> bool:
        """Is the API ready?"""
        try:
            return (await self.get("health/ready")).status == 200
        except httpx.TransportError:
            return False

    async def get(self, path: str) -> Answer:
        return _answer(await self._client.get(path))

    async def post(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        headers = {"Idempotency-Key": key} if key else {}
        return _answer(await self._client.post(path, json=body, headers=headers))

    async def submit(
        self, *inputs: Mapping[str, Any], type: str = "chaos:work", key: str | None = None
    ) -> Answer:
        """One task, one item for each input."""
        return await self.post(
            "media-tasks", {"type": type, "items": [{"input": one} for one in inputs]}, key=key
        )

    async def submitted(self, *inputs: Mapping[str, Any], type: str = "chaos:work") -> str:
        """The same, which has to be accepted; the task's id."""
        answer = await self.submit(*inputs, type=type)
        assert answer.status == 202, answer
        return str(answer.body["id"])

    async def ended(self, task_id: str, timeout_seconds: float = 60.0) -> Any:
        """The task once it has ended; answers that are no task are asked again."""

        async def final() -> Any:
            answer = await self.get(f"media-tasks/{task_id}")
            return answer.body if answer.status == 200 and answer.body["finishedAt"] else None

        return await wait_until(cast(Any, final), timeout_seconds, f"task {task_id} ends")

    async def metric(self, name: str, **labels: str) -> float | None:
        """A sample of /metrics; None when it is absent."""
        text = (await self._client.get("metrics")).text
        for line in text.splitlines():
            found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if found and dict(re.findall(r'(\w+)="([^"]*)"', found[1] or "")) == labels:
                return float(found[2])
        return None

    async def sees(self, path: str, status: int, code: int = 0, timeout_seconds: float = 20.0) -> Answer:
        """Until GET `path` is answered so."""

        async def so() -> Answer | None:
            answer = await self.get(path)
            return answer if (answer.status, answer.code) == (status, code) else None

        return cast(
            Answer, await wait_until(cast(Any, so), timeout_seconds, f"{path} is answered {status} / {code}")
        )


def _answer(response: httpx.Response) -> Answer:
    try:
        body = response.json()
    except ValueError:
        body = response.text
    code = body.get("code", 0) if isinstance(body, dict) else 0
    return Answer(response.status_code, code if isinstance(code, int) else 0, body, response.headers)
