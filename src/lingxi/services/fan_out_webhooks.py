"""Events that endpoints want become tasks of deliveries, in the transaction that marks the events as published."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.ids import new_task_id
from lingxi.domain.wire import time_to_wire
from lingxi.names import PAYLOAD_VERSION, PRIORITIES, WEBHOOK_ATTEMPTS, WEBHOOK_QUEUE


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An outbox event that endpoints may want."""

    outbox_id: int
    workspace_id: UUID
    type: str
    payload: dict[str, Any]
    created_at: datetime

    def body(self) -> str:
        """What is sent, the same for every endpoint and attempt."""
        data = {name: value for name, value in self.payload.items() if name != "v"}
        sent = {
            "v": PAYLOAD_VERSION,
            "type": self.type,
            "timestamp": time_to_wire(self.created_at),
            "data": data,
        }
        return orjson.dumps(sent).decode()


@dataclass(slots=True)
class _Rows:
    """Arguments of the statement: by event, and by delivery."""

    events: list[tuple[UUID, UUID, int, str, str, UUID | None, int]] = field(default_factory=list)
    deliveries: list[tuple[UUID, UUID, UUID | None, int | None]] = field(default_factory=list)


async def fan_out_webhooks(connection: Connection, events: Sequence[WebhookEvent]) -> int:
    """Write what subscribed endpoints of these events get; answers the number of items that were made.

    An endpoint that is disabled gets no item, but the event is kept for it: it can be replayed once it is enabled.
    """
    found = await connection.fetch(
        sql("webhooks/subscribers"),
        [event.workspace_id for event in events],
        [event.type for event in events],
    )
    rows, items = _Rows(), 0
    for number, event in enumerate(events):
        subscribers = [row for row in found if row["number"] == number]
        if not subscribers:
            continue
        enabled = [row["id"] for row in subscribers if row["enabled"]]
        event_id, task_id = uuid4(), new_task_id() if enabled else None
        rows.events.append(
            (
                event_id,
                event.workspace_id,
                event.outbox_id,
                event.type,
                event.body(),
                task_id,
                len(enabled),
            )
        )
        rows.deliveries += [(event_id, id_, task_id, n) for n, id_ in enumerate(enabled, 1)]
        rows.deliveries += [(event_id, row["id"], None, None) for row in subscribers if not row["enabled"]]
        items += len(enabled)
    if rows.events:
        by_event, by_delivery = zip(*rows.events, strict=True), zip(*rows.deliveries, strict=True)
        await connection.execute(
            sql("webhooks/fan_out"),
            *(list(column) for column in by_event),
            *(list(column) for column in by_delivery),
            WEBHOOK_QUEUE,
            WEBHOOK_ATTEMPTS,
            PRIORITIES["normal"],
        )
    return items
