"""Attempts as spans, with their commit as the last part: of jobs that belong to a trace. Nothing while tracing is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingxi.broker.queue import Delivery
from lingxi.names import PHOTO_QUEUE
from lingxi.observability import tracing
from lingxi.services.photo_jobs import PhotoClaim
from lingxi.worker.job import traceparent_in
from lingxi.worker.ledger import Running

if TYPE_CHECKING:
    from opentelemetry.trace import Span


def begin_attempt(running: Running) -> Span | None:
    """The span of an item's attempt that was claimed just now."""
    if (parent := traceparent_in(running.delivery.data)) is None:
        return None
    item, attempt = running.context.item, running.claim.attempt
    return tracing.begin("attempt", parent, "consumer", task=item.task_id, item=item.id, attempt=attempt)


def end_attempt(running: Running, verdict: str, *, commit_began_ns: int) -> None:
    """After the commit of what became of it, which began then (Unix time)."""
    inner = tracing.traceparent_of(running.span)
    tracing.end(tracing.begin("commit", inner, at_ns=commit_began_ns, verdict=verdict))
    assert running.decision is not None
    tracing.end(running.span, failed=running.decision.error_code, outcome=running.decision.outcome)


def begin_photo_attempt(delivery: Delivery, claim: PhotoClaim) -> Span | None:
    """The span of an attempt at a first publication; its commit is a span of `process_photo`'s."""
    if (parent := traceparent_in(delivery.data)) is None:
        return None
    return tracing.begin(
        "attempt", parent, "consumer", queue=PHOTO_QUEUE, photo=claim.photo_id, attempt=claim.attempt
    )
