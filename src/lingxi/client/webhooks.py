"""Webhook endpoints over HTTP, with an admin's token. Rows are objects as they are on the wire.

async with Client("http://127.0.0.1:3000", token) as client:
    made = await client.webhooks.create("https://hooks.example.com/lingxi", ["task.ended"])
    print(made["secret"])
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from lingxi.client.model import Json

if TYPE_CHECKING:
    from lingxi.client.transport import Transport

MAX_PAGE_ROWS = 500


class Webhooks:
    """The calls of one server's webhook endpoints. Every method raises ApiError and Unreachable."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, url: str, events: Sequence[str], *, description: str = "") -> Json:
        """A new endpoint; `secret` is in this answer alone."""
        body = {"url": url, "events": list(events), "description": description}
        return await self._transport.ask("POST", "webhooks", body)

    async def all(self) -> list[Json]:
        """Every endpoint of the workspace, oldest first."""
        return list((await self._transport.ask("GET", "webhooks"))["webhooks"])

    async def get(self, webhook_id: str) -> Json:
        return await self._transport.ask("GET", _path(webhook_id))

    async def change(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        description: str | None = None,
    ) -> Json:
        """What is None stays."""
        asked = {"url": url, "events": None if events is None else list(events), "description": description}
        body = {name: value for name, value in asked.items() if value is not None}
        return await self._transport.ask("PATCH", _path(webhook_id), body)

    async def enable(self, webhook_id: str) -> Json:
        return await self._transport.ask("POST", _path(webhook_id, "enable"))

    async def disable(self, webhook_id: str) -> Json:
        return await self._transport.ask("POST", _path(webhook_id, "disable"))

    async def rotate(self, webhook_id: str, *, overlap_seconds: int | None = None) -> Json:
        """A new `secret`; the one before signs beside it for a day, or as long as it is told."""
        body = {} if overlap_seconds is None else {"overlapSeconds": overlap_seconds}
        return await self._transport.ask("POST", _path(webhook_id, "rotate"), body)

    async def delete(self, webhook_id: str) -> None:
        await self._transport.send("DELETE", _path(webhook_id))

    async def deliveries(self, webhook_id: str, *states: str) -> AsyncIterator[Json]:
        """Newest first; only those in `states`, if any are named."""
        cursor: str | None = None
        while True:
            query = f"limit={MAX_PAGE_ROWS}" + "".join(f"&state={quote(state, safe='')}" for state in states)
            if cursor is not None:
                query += f"&cursor={quote(cursor, safe='')}"
            answer = await self._transport.ask("GET", f"{_path(webhook_id, 'deliveries')}?{query}")
            for row in answer["deliveries"]:
                yield row
            cursor = answer.get("nextCursor")
            if cursor is None:
                return

    async def replay(self, webhook_id: str, *, event_id: str | None = None, since: str | None = None) -> Json:
        """One event again, or all that was not delivered since (RFC 3339): `{replayed, taskId}`."""
        body = {"eventId": event_id} if event_id is not None else {"since": since}
        return await self._transport.ask("POST", _path(webhook_id, "replay"), body)


def _path(webhook_id: str, *rest: str) -> str:
    return "/".join(["webhooks", quote(webhook_id, safe=""), *rest])
