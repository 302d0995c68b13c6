"""A light load, as long as the game day lasts: drills, and pictures that are verified. Outages are waited for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.pictures import picture

GOOD, MISSING = "good.jpg", "missing.jpg"


@dataclass(slots=True)
class Load:
    """`missing_in`: one in so many pictures is not there; 0: all are."""

    url: str
    token: str
    missing_in: int = 0
    submitted: int = 0
    refused: int = 0
    pictures: bytes = field(default_factory=lambda: picture())
    client: httpx.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx.AsyncClient(base_url=f"{self.url}/api/v1/", headers=headers, timeout=10)

    async def run(self) -> None:
        """Until cancelled: twice a second a task of drills or of pictures."""
        await self.put(GOOD)
        drills = [{"input": {"durationMs": 20}}] * 3
        while True:
            for kind, items in (
                ("demo:drill", drills),
                ("media:verify", self.some_pictures(16 if self.missing_in else 2)),
            ):
                await self._submit_if_up(kind, items)
                await asyncio.sleep(0.5)

    def some_pictures(self, count: int) -> list[dict[str, Any]]:
        """Items of media:verify."""
        wrong = self.missing_in
        return [
            {"input": {"object": MISSING if wrong and index % wrong == wrong - 1 else GOOD}}
            for index in range(count)
        ]

    async def put(self, name: str) -> None:
        """Upload the picture under a name."""
        (await self.client.put(f"objects/{name}", content=self.pictures)).raise_for_status()

    async def submit(self, kind: str, items: list[dict[str, Any]]) -> str:
        """The new task's id."""
        answer = await self.client.post("media-tasks", json={"type": kind, "items": items})
        answer.raise_for_status()
        self.submitted += len(items)
        return str(answer.json()["id"])

    async def _submit_if_up(self, kind: str, items: list[dict[str, Any]]) -> None:
        try:
            await self.submit(kind, items)
        except (httpx.TransportError, httpx.HTTPStatusError):
            self.refused += 1
