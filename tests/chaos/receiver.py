"""Where webhooks go in the chaos runs: it takes everything, and is the ledger of what was delivered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from lingxi.services.webhook_endpoints import create_endpoint
from tests.chaos.ground import System

SETTINGS = {"WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "QUEUE": "chaos,photo,delivery"}


class Receiver:
    """`taken`: how often each event came, by its `webhook-id`."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            await reader.readexactly(int(headers.get("content-length", 0)))
            self.taken[headers["webhook-id"]] += 1
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # its sender was killed
        finally:
            writer.close()


@asynccontextmanager
async def receiving(system: System) -> AsyncIterator[Receiver]:
    """An endpoint of the system's workspace that wants to hear of every task's end."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    connection = await asyncpg.connect(system.database_url)
    try:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await create_endpoint(
            connection, system.workspace_id, url=url, events=["task.ended"], description="chaos"
        )
        yield receiver
    finally:
        await connection.close()
        server.close()


async def undelivered(system: System, receiver: Receiver) -> list[str]:
    """Sentences: ends that nobody was told of, and events that were told and are not there."""
    connection = await asyncpg.connect(system.database_url)
    try:
        ended = await connection.fetchval(
            "select count(*) from outbox_events e join media_tasks t on t.id = e.task_id"
            " where e.type = 'task.ended' and t.type like 'chaos:%'"
        )
    finally:
        await connection.close()
    if len(receiver.taken) == ended:
        return []
    return [f"{ended} rounds ended, and the receiver of webhooks was told of {len(receiver.taken)}"]
