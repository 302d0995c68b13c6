"""Events of photos: an upload becomes the photo's one job, the others a hint; what cannot be read is charged."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from lingxi import names
from lingxi.broker.connection import connection_factory
from lingxi.broker.hints import HintListener
from lingxi.broker.queue import BullQueue
from lingxi.outbox.dispatcher import Dispatcher
from lingxi.services.outbox_events import photo_event
from lingxi.services.workspaces import create_workspace
from tests.integration.outbox.conftest import MakeDispatcher, Pool, Submit, events, pending
from tests.support.waiting import wait_until


@pytest.fixture
async def workspace(pool: Pool) -> Any:
    async with pool.acquire() as connection, connection.transaction():
        made = await create_workspace(connection, "photographer")
    assert made is not None
    return made.id


@pytest.fixture
async def photo_queue(redis_url: str) -> Any:
    queue = BullQueue(names.PHOTO_QUEUE, connection_factory(redis_url), token="test")
    yield queue
    await queue.close()


def ids() -> dict[str, Any]:
    return {"v": 1, "photoId": str(uuid4()), "albumId": str(uuid4())}


async def emit(pool: Pool, workspace: Any, type_: str, payload: dict[str, Any]) -> None:
    async with pool.acquire() as connection:
        await photo_event(connection, type_, workspace, payload)


async def test_an_upload_becomes_the_photos_job_with_its_attempts(
    dispatcher: Dispatcher, pool: Pool, workspace: Any, photo_queue: BullQueue
) -> None:
    payload = ids()
    await emit(pool, workspace, "photo.uploaded", payload)
    await emit(pool, workspace, "photo.uploaded", payload)  # rung again: still one job
    done = await dispatcher.run_once()
    assert (done.published, done.charged) == (2, 0)
    (delivery,) = await photo_queue.take(5)
    assert (delivery.job_id, delivery.name) == (f"process-{payload['photoId']}", "photo")
    assert json.loads(delivery.data) == payload
    assert {event["queue"] for event in await events(pool)} == {names.PHOTO_QUEUE}


async def test_what_changes_an_album_is_hinted_and_published_at_once(
    dispatcher: Dispatcher, pool: Pool, workspace: Any, photo_queue: BullQueue, redis_url: str
) -> None:
    heard: list[str] = []
    connected = asyncio.Event()
    listener = HintListener(
        redis_url,
        [names.HINT_ALBUMS],
        lambda channel, payload: heard.extend(payload.decode().split(",")),
        connected.set,
    )
    listener.start()
    await connected.wait()
    payloads = [ids(), ids(), {"v": 1, "albumId": str(uuid4()), "photoId": None}]
    for type_, payload in zip(names.EVENTS_OF_ALBUMS, payloads, strict=True):
        await emit(pool, workspace, type_, payload)
    assert (await dispatcher.run_once()).published == 3
    await wait_until(lambda: len(heard) == 3)
    await listener.stop()
    assert set(heard) == {payload["albumId"] for payload in payloads}
    assert await photo_queue.waiting() == 0 and await pending(pool) == 0


@pytest.mark.parametrize(
    "bad", [{"v": 1}, {"v": 1, "photoId": 7, "albumId": "x"}, {"photoId": "no", "albumId": "no"}]
)
@pytest.mark.parametrize("type_", ["photo.uploaded", "photo.updated"])
async def test_a_payload_that_cannot_be_read_is_charged_alone(
    dispatcher: Dispatcher,
    pool: Pool,
    workspace: Any,
    photo_queue: BullQueue,
    type_: str,
    bad: dict[str, Any],
) -> None:
    await emit(pool, workspace, type_, bad)
    await emit(pool, workspace, "photo.uploaded", ids())
    for attempt in range(1, names.MAX_EVENT_ATTEMPTS + 1):
        done = await dispatcher.run_once()
        assert done.charged == 1 and done.paused is None
        guilty, _ = await events(pool)
        assert guilty["attempts"] == attempt and "UUID" in guilty["error_detail"]
        await pool.execute("update outbox_events set next_attempt_at = now() where published_at is null")
    assert guilty["last_error"] == names.DEAD_LETTERED
    assert await photo_queue.waiting() == 1
    assert (await dispatcher.run_once()).claimed == 0


async def test_a_newer_payload_waits_uncharged(dispatcher: Dispatcher, pool: Pool, workspace: Any) -> None:
    await emit(pool, workspace, "photo.uploaded", {**ids(), "v": 2})
    assert (await dispatcher.run_once()).claimed == 0
    assert (await events(pool))[0]["attempts"] == 0


async def test_a_full_queue_holds_uploads_back_and_no_other_queue(
    make_dispatcher: MakeDispatcher, pool: Pool, workspace: Any, photo_queue: BullQueue, submit: Submit
) -> None:
    dispatcher = make_dispatcher(waiting_limit=3)
    for _ in range(5):
        await emit(pool, workspace, "photo.uploaded", ids())
    await submit(1)
    await dispatcher.run_once()
    assert await photo_queue.waiting() == 3
    assert await pending(pool) == 2
    await photo_queue.finish_many(await photo_queue.take(3), fetch_next=False)
    await dispatcher.run_once()
    assert await photo_queue.waiting() == 2 and await pending(pool) == 0


async def test_a_deployment_without_the_queue_keeps_its_uploads(
    make_dispatcher: MakeDispatcher, pool: Pool, workspace: Any
) -> None:
    dispatcher = make_dispatcher(queues=("demo:drill",))
    await emit(pool, workspace, "photo.uploaded", ids())
    done = await dispatcher.run_once()
    assert (done.claimed, done.charged) == (0, 0) and await pending(pool) == 1
