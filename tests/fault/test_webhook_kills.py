"""A worker is killed around the answer of a webhook's receiver: the event arrives again under its id, and its item ends once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lingxi.services.outbox_events import photo_event
from lingxi.services.webhook_endpoints import create_endpoint
from tests.fault.conftest import StartWorker
from tests.integration.webhooks.receiver import Receiver
from tests.support.waiting import wait_until
from tests.support.work import Work

slow = pytest.mark.slow

SETTINGS = {
    "QUEUE": "webhook:deliver",
    "WEBHOOK_ALLOWED_NETWORKS": "127.0.0.1",
    "LEASE_SECONDS": "1",
    "LEASE_RENEW_SECONDS": "0.3",
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as opened:
        yield opened


async def events(work: Work, receiver: Receiver, count: int) -> str:
    """Events for an endpoint, by way of the outbox; answers its secret."""
    async with work.pool.acquire() as connection, connection.transaction():
        made = await create_endpoint(
            connection, work.workspace_id, url=receiver.url, events=["photo.removed"], description=""
        )
        assert made is not None
        for number in range(count):
            ids = {"v": 1, "photoId": str(made[0].id), "albumId": str(made[0].id), "entityVersion": number}
            await photo_event(connection, "photo.removed", work.workspace_id, ids)
    return made[1]


async def until_delivered(work: Work, receiver: Receiver, secret: str, count: int) -> None:
    """Every event arrived, signed, and every item ended once."""

    async def done() -> bool:
        query = "select count(*) from webhook_deliveries where delivered_at is not null"
        return bool(await work.pool.fetchval(query) == count)

    await wait_until(cast(Any, done), 60)
    states = await work.pool.fetch("select state, count(*) as n from media_task_items group by state")
    assert [tuple(row) for row in states] == [("succeeded", count)]
    ends = await work.pool.fetchval("select count(*) from outbox_events where type = 'task.ended'")
    assert ends == count, "each task ended once"
    numbers = [got.verified_by(secret)["data"]["entityVersion"] for got in receiver.received]
    assert set(numbers) == set(range(count))
    ids = {(got.id, number) for got, number in zip(receiver.received, numbers, strict=True)}
    assert len(ids) == count, "an event keeps its id"
    assert await work.pool.fetchval("select sum(attempts) from webhook_deliveries") == count


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "step",
    [
        "webhook.after_response",
        *(pytest.param(f"worker.{s}", marks=slow) for s in ("after_run", "after_commit")),
    ],
)
async def test_killed_at_a_step_it_is_delivered_under_the_same_id(
    work: Work, start_worker: StartWorker, receiver: Receiver, tmp_path: Path, step: str
) -> None:
    secret = await events(work, receiver, 1)
    worker = start_worker(**SETTINGS, LINGXI_FAILPOINTS=f"{step}=kill")
    await wait_until(lambda: (tmp_path / f"{step}.reached").exists(), 40)
    worker.kill_group()
    assert len(receiver.received) >= 1
    start_worker(**SETTINGS)
    await until_delivered(work, receiver, secret, 1)
    assert len(receiver.received) >= (2 if step == "webhook.after_response" else 1)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=slow) for seed in range(2, 12))])
async def test_killed_at_a_random_point_every_event_arrives_and_ends_once(
    work: Work, start_worker: StartWorker, receiver: Receiver, seed: int
) -> None:
    chance = random.Random(seed)
    count, at = 30, chance.randrange(1, 28)
    killing = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_request() -> None:
        if len(receiver.received) == at:
            loop.call_soon_threadsafe(killing.set)

    receiver.on_request = on_request
    secret = await events(work, receiver, count)
    worker = start_worker(**SETTINGS)
    async with asyncio.timeout(60):
        await killing.wait()
    await asyncio.sleep(chance.uniform(0, 0.05))  # somewhere between the answer and the acknowledgement
    worker.kill_group()
    start_worker(**SETTINGS)
    await until_delivered(work, receiver, secret, count)
