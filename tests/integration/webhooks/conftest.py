"""A bench, a receiver on an allow-listed loopback address, and endpoints in the bench's workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from uuid import UUID

import pytest

from lingxi.db.session import Connection, connect
from lingxi.names import EVENT_TASK_ENDED
from lingxi.processors.contract import Processor
from lingxi.processors.outgoing.addresses import AddressRule
from lingxi.processors.outgoing.post import Limits, Poster
from lingxi.processors.webhook_deliver import DeliverInput, WebhookDeliver
from lingxi.services.fan_out_webhooks import WebhookEvent, fan_out_webhooks
from lingxi.services.webhook_endpoints import WebhookEndpoint, create_endpoint
from lingxi.testing import Bench, open_bench
from tests.integration.webhooks.receiver import Receiver
from tests.support.servers import Servers

LOOPBACK = AddressRule([ip_network("127.0.0.1/32")])


@pytest.fixture(scope="module")
def bench(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    with open_bench(folder, database_url=servers.database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def only_receiver() -> Iterator[Receiver]:
    with Receiver() as opened:
        yield opened


@pytest.fixture
def receiver(only_receiver: Receiver) -> Receiver:
    only_receiver.reset()
    return only_receiver


def deliver_with(bench: Bench, poster: Poster) -> Processor[DeliverInput]:
    """The processor on the bench's database."""

    @asynccontextmanager
    async def reading() -> AsyncIterator[Connection]:
        connection = await connect(bench.database_url, name="webhook test")
        try:
            yield connection
        finally:
            await connection.close()

    return WebhookDeliver(reading, poster).processor()


@pytest.fixture(scope="module")
def deliver(bench: Bench) -> Processor[DeliverInput]:
    """It may go to 127.0.0.1, and waits for no answer longer than a moment."""
    return deliver_with(bench, Poster(LOOPBACK, Limits(connect=5, silence=2, total=10)))


@dataclass
class Hooked:
    """An endpoint, and one event for it that waits in its delivery row (the item that the fan-out made is left alone)."""

    endpoint: WebhookEndpoint
    secret: str
    event_id: UUID

    @property
    def input(self) -> dict[str, str]:
        return {"endpointId": str(self.endpoint.id), "eventId": str(self.event_id)}


def in_bench(bench: Bench, work: Callable[[Connection], Any]) -> Any:
    """Run `work(connection)` in a transaction of the bench's database."""

    async def run() -> Any:
        connection = await connect(bench.database_url, name="webhook test")
        try:
            async with connection.transaction():
                return await work(connection)
        finally:
            await connection.close()

    return bench._wait(run())


@pytest.fixture
def hook(bench: Bench, receiver: Receiver) -> Callable[..., Hooked]:
    """`hook(url=…)`: a new endpoint (the receiver's), with one event."""

    def make(url: str | None = None) -> Hooked:
        async def work(connection: Connection) -> Hooked:
            await connection.execute("delete from webhook_endpoints")
            made = await create_endpoint(
                connection,
                bench.workspace_id,
                url=url or receiver.url,
                events=[EVENT_TASK_ENDED],
                description="",
            )
            assert made is not None
            outbox_id = await connection.fetchval("select nextval('attempt_ids')")
            now = await connection.fetchval("select clock_timestamp()")
            payload = {"v": 1, "taskId": "t", "type": "demo:drill", "status": "succeeded", "round": 1}
            event = WebhookEvent(outbox_id, bench.workspace_id, EVENT_TASK_ENDED, payload, now)
            assert await fan_out_webhooks(connection, [event]) == 1
            event_id = await connection.fetchval(
                "select id from webhook_events where outbox_id = $1", outbox_id
            )
            return Hooked(made[0], made[1], event_id)

        result: Hooked = in_bench(bench, work)
        return result

    return make


def row_of(bench: Bench, hooked: Hooked) -> Any:
    """The delivery's row."""
    (row,) = bench.fetch(
        "select * from webhook_deliveries where endpoint_id = $1 and event_id = $2",
        hooked.endpoint.id,
        hooked.event_id,
    )
    return row


def endpoint_row(bench: Bench, hooked: Hooked) -> Any:
    (row,) = bench.fetch("select * from webhook_endpoints where id = $1", hooked.endpoint.id)
    return row
