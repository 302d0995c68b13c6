"""Deliveries of an endpoint: what became of them, and sending them again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import Task
from lingxi.names import PRIORITIES, WEBHOOK_ATTEMPTS, WEBHOOK_QUEUE
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.webhook_endpoints import hold_endpoint

MAX_REPLAYED: Final = 10_000

DeliveryState = Literal["queued", "running", "retrying", "delivered", "failed", "cancelled", "missed"]


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """One event for one endpoint, with its last request. `missed`: it happened while the endpoint was disabled."""

    event_id: UUID
    type: str
    state: DeliveryState
    attempts: int
    task_id: UUID | None
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    duration_ms: int | None
    response_status: int | None
    response_body: str | None
    error_code: str | None
    delivered_at: datetime | None
    created_at: datetime


async def list_deliveries(
    connection: Connection,
    endpoint_id: UUID,
    *,
    states: Sequence[str] | None,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[WebhookDelivery]:
    """Newest first; `after` is the time and event of the last one of the page before."""
    created_at, event_id = after or (None, None)
    rows = await connection.fetch(
        sql("webhooks/deliveries"), endpoint_id, created_at, event_id, limit, states
    )
    return [
        WebhookDelivery(**{name: row[name] for name in WebhookDelivery.__dataclass_fields__}) for row in rows
    ]


async def replay_since(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID, since: datetime
) -> tuple[int, Task | None]:
    """Send again what happened since and was not delivered, oldest first, at most MAX_REPLAYED of them.

    What waits for an attempt is left alone. NotFound; Conflict when the endpoint is disabled.
    """
    await _hold_enabled(connection, workspace_id, endpoint_id)
    rows = await connection.fetch(sql("webhooks/undelivered"), endpoint_id, since, MAX_REPLAYED)
    events = [row["event_id"] for row in rows]
    return len(events), await _again(connection, workspace_id, endpoint_id, events) if events else None


async def replay_one(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID, event_id: UUID
) -> tuple[int, Task | None]:
    """Send one again, also when it was delivered. NotFound; Conflict when it waits anyhow or the endpoint is disabled."""
    await _hold_enabled(connection, workspace_id, endpoint_id)
    row = await connection.fetchrow(sql("webhooks/waits"), endpoint_id, event_id)
    if row is None:
        raise NotFound
    if row["waits"]:
        raise Conflict("This delivery is on its way; its next attempt comes by itself.")
    return 1, await _again(connection, workspace_id, endpoint_id, [event_id])


async def _hold_enabled(connection: Connection, workspace_id: UUID, endpoint_id: UUID) -> None:
    endpoint = await hold_endpoint(connection, workspace_id, endpoint_id)
    if endpoint is None:
        raise NotFound
    if not endpoint.enabled:
        raise Conflict("The endpoint is disabled; enable it first.")


async def _again(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID, events: Sequence[UUID]
) -> Task:
    inputs = [
        orjson.dumps({"endpointId": str(endpoint_id), "eventId": str(event)}).decode() for event in events
    ]
    new = NewTask(
        workspace_id,
        WEBHOOK_QUEUE,
        PRIORITIES["normal"],
        [None] * len(events),
        inputs,
        max_attempts=WEBHOOK_ATTEMPTS,
    )
    task = await submit_task(connection, new)
    await connection.execute(sql("webhooks/replayed"), endpoint_id, list(events), task.id)
    return task
