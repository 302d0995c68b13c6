"""Dispatches as spans: of each event whose task or photo belongs to a trace. Nothing is asked or made while tracing is off."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import orjson

from lingxi import names
from lingxi.db.session import Connection, Record
from lingxi.domain.ids import parse_uuid
from lingxi.observability import tracing
from lingxi.services.remember_trace import find_traces

if TYPE_CHECKING:
    from opentelemetry.trace import Span


async def begin_spans(connection: Connection, rows: Sequence[Record]) -> dict[int, Span]:
    """A span for each of these events that makes jobs and belongs to a trace, by the event's id."""
    if not tracing.on():
        return {}
    subjects = {row["id"]: subject for row in rows if (subject := _subject(row)) is not None}
    if not subjects:
        return {}
    traces = await find_traces(connection, list(subjects.values()))
    spans = {
        event_id: tracing.begin("dispatch", traces[subject], "producer", event=event_id, subject=subject)
        for event_id, subject in subjects.items()
        if subject in traces
    }
    return {event_id: span for event_id, span in spans.items() if span is not None}


def end_spans(spans: Mapping[int, Span], sent: Collection[int]) -> None:
    """After the round's commit; `sent`: the events whose jobs are in Redis."""
    for event_id, span in spans.items():
        tracing.end(span, sent=event_id in sent)


def _subject(row: Record) -> UUID | None:
    """The task or photo whose jobs an event makes; None when it makes none, or does not say."""
    if row["type"] == names.EVENT_ITEMS_QUEUED:
        task_id: UUID | None = row["task_id"]
        return task_id
    if row["type"] != names.EVENT_PHOTO_UPLOADED:
        return None
    try:
        return parse_uuid(str(orjson.loads(row["payload"])["photoId"]))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
