"""uvloop answers a write on a connection that was lost a moment ago with a RuntimeError, which redis-py lets through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from lingxi import names
from lingxi.broker.client import api_client, broker_errors, worker_client
from lingxi.broker.errors import BrokerUnavailable
from lingxi.broker.hints import HintListener, Hints
from tests.support.waiting import wait_until


@asynccontextmanager
async def polite_server() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Says OK to every command; the URL, and what it was sent."""
    said: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            said.append(data)
            writer.write(b"+OK\r\n" * data.count(b"*"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", said
    finally:
        server.close()


def on_uvloop(work: Coroutine[Any, Any, None]) -> None:
    uvloop.run(work)


async def closed(connection: Any) -> None:
    """Close it below redis-py, which has not noticed."""
    transport = connection._writer.transport
    transport.abort()
    await wait_until(lambda: "closed=True" in repr(transport))


def test_it_is_an_outage() -> None:
    async def work() -> None:
        async with polite_server() as (url, _), worker_client(url) as client:
            subscription = client.pubsub()
            await subscription.connect()
            await closed(subscription.connection)
            with pytest.raises(BrokerUnavailable), broker_errors():
                await subscription.ping()

    on_uvloop(work())


def test_hints_are_dropped_and_the_next_ones_are_sent() -> None:
    async def work() -> None:
        async with polite_server() as (url, said):
            client = api_client(url)
            hints = Hints(client)
            hints.publish_outbox()
            await hints._sender  # type: ignore[misc]
            (connection,) = client.connection_pool._available_connections
            connection.can_read_destructive = _nothing_to_read  # so that the pool does not notice first
            await closed(connection)
            hints.publish_outbox()
            await hints._sender  # type: ignore[misc]  # raises what the task ended with
            assert hints.dropped == 1
            hints.publish_outbox()
            await hints.close()
            assert sum(one.count(names.HINT_OUTBOX.encode()) for one in said) == 2
            await client.aclose()

    on_uvloop(work())


async def _nothing_to_read() -> bool:
    return False


def test_a_listener_listens_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        listens = 0

        async def listen(self: HintListener, client: Any) -> None:
            nonlocal listens
            listens += 1
            async with client.pubsub() as subscription:
                await subscription.connect()
                await closed(subscription.connection)
                await subscription.ping()

        monkeypatch.setattr(HintListener, "_listen", listen)
        async with polite_server() as (url, _):
            listener = HintListener(url, ["any"], lambda channel, payload: None)
            listener.start()
            await wait_until(lambda: listens >= 3)
            await listener.stop()

    on_uvloop(work())
