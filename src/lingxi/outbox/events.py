"""What becomes of events that are no batch of items: a photo's job, or a hint to those who watch a task or an album."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from lingxi import names
from lingxi.broker.job import Job, photo_job
from lingxi.db.session import Record
from lingxi.domain.ids import parse_uuid
from lingxi.observability import tracing
from lingxi.outbox.sender import Parcel
from lingxi.services.fan_out_webhooks import WebhookEvent

if TYPE_CHECKING:
    from opentelemetry.trace import Span


_QUEUE_NAME = re.compile(r"[a-z0-9-]+:[a-z0-9-]+")


class BadPayload(Exception):
    """The payload does not say what an event of its type has to say; sending it again cannot help."""


@dataclass(slots=True)
class Prepared:
    """What becomes of a round's events: sent, published at once (with a hint), or charged for what they say."""

    parcels: list[Parcel] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    guilty: dict[int, str] = field(default_factory=dict)
    ended_tasks: list[UUID] = field(default_factory=list)
    changed_albums: set[UUID] = field(default_factory=set)
    for_webhooks: list[WebhookEvent] = field(default_factory=list)
    spans: dict[int, Span] = field(default_factory=dict)  # by event, where one is traced

    def traceparent(self, event_id: int) -> str | None:
        """What the event's jobs tell of the trace that they belong to."""
        return tracing.traceparent_of(self.spans.get(event_id))


def queue_of(row: Record) -> str | None:
    """The queue that an event's jobs go to; None when it makes none."""
    if row["type"] == names.EVENT_PHOTO_UPLOADED:
        return names.PHOTO_QUEUE
    return str(row["queue"]) if row["type"] == names.EVENT_ITEMS_QUEUED else None


def flaw_of(row: Record) -> str | None:
    """What the columns of an event say that no event can say; somebody wrote it by hand. None: nothing is wrong with them."""
    if row["priority"] not in names.PRIORITIES.values():
        return f"there is no priority {row['priority']}"
    if row["queue"] is not None and not _QUEUE_NAME.fullmatch(row["queue"]):
        return f"there is no queue {row['queue'][:100]!r}"
    if row["type"] == names.EVENT_TASK_ENDED and row["task_id"] is None:
        return "it names no task"
    return None


def prepare_alone(row: Record, prepared: Prepared) -> None:
    """Add an event that is no batch of items to what is prepared."""
    try:
        if row["type"] == names.EVENT_PHOTO_UPLOADED:
            job = _upload_job(row["payload"], prepared.traceparent(row["id"]))
            now_ms = time.time_ns() // 1_000_000  # a photo's waterfall tells when it was enqueued
            prepared.parcels.append(Parcel(row["id"], names.PHOTO_QUEUE, row["priority"], [job], now_ms))
            return
        if row["type"] == names.EVENT_TASK_ENDED:
            prepared.ended_tasks.append(row["task_id"])
        else:
            prepared.changed_albums.add(_album_of_event(row["payload"]))
        _offer(row, prepared)
    except BadPayload as bad:
        prepared.guilty[row["id"]] = str(bad)
    else:
        prepared.published.append(row["id"])


def _offer(row: Record, prepared: Prepared) -> None:
    """What endpoints of webhooks may want. The end of a delivery is told to nobody: it would be an event without end."""
    payload = _fields(row["payload"])
    if row["workspace_id"] is not None and payload.get("type") != names.WEBHOOK_QUEUE:
        event = WebhookEvent(row["id"], row["workspace_id"], row["type"], payload, row["created_at"])
        prepared.for_webhooks.append(event)


def _upload_job(payload: str, traceparent: str | None) -> Job:
    """The job of a `photo.uploaded`. Raises BadPayload."""
    fields = _fields(payload)
    return photo_job(_id(fields, "photoId"), _id(fields, "albumId"), traceparent)


def _album_of_event(payload: str) -> UUID:
    """The album in which a photo was published, updated or removed. Raises BadPayload."""
    return _id(_fields(payload), "albumId")


def _fields(payload: str) -> dict[str, Any]:
    try:
        fields = orjson.loads(payload)
    except orjson.JSONDecodeError as error:  # PostgreSQL bears numbers that JSON readers do not
        raise BadPayload(f"the payload cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise BadPayload("the payload is no JSON object")
    return fields


def _id(fields: dict[str, Any], name: str) -> UUID:
    text = fields.get(name)
    value = parse_uuid(text) if isinstance(text, str) else None
    if value is None:
        raise BadPayload(f"the payload's {name} is no UUID")
    return value
