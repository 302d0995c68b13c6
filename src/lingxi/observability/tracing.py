"""Traces by OpenTelemetry, which is an optional extra: `pip install lingxi[tracing]`. Off unless an endpoint is set.

One trace joins a request, the dispatch of its jobs, the attempt of each item, its commit, and the frame that tells a watcher.
Between processes goes a W3C `traceparent`: in the table `traces` by what it is about, and in the data of a job. While tracing is
off every function here returns at once, and nothing of OpenTelemetry is imported.

Spans hold ids, codes, numbers and the templates of routes: no names, no addresses, no inputs.
"""

from __future__ import annotations

import atexit
import contextvars
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

Kind = Literal["internal", "server", "producer", "consumer"]
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_EXPORT_SECONDS = 5.0
_LAST_SECONDS = 2.0  # for what is left when a process ends
_provider: TracerProvider | None = None
_tracer: Tracer | None = None


class TracingMissing(Exception):
    """An endpoint is set, and the extra is not installed; the message says what to do."""


def start(
    service: str,
    endpoint: str,
    *,
    ratio: float = 1.0,
    version: str = "",
    exporter: SpanExporter | None = None,
) -> None:
    """Trace from now on, as `service`, to the OTLP endpoint (`http://host:4318`), or to `exporter` at once.

    `ratio`: of the traces that begin here; those that came with a request's `traceparent` go on as it says. Nothing happens
    without an endpoint and an exporter. Raises TracingMissing.
    """
    global _provider, _tracer
    if not endpoint and exporter is None:
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

        resource = Resource.create({"service.name": service, "service.version": version})
        provider = TracerProvider(
            resource=resource, sampler=ParentBasedTraceIdRatio(ratio), shutdown_on_exit=False
        )
        if exporter is not None:
            provider.add_span_processor(SimpleSpanProcessor(exporter))
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            address = f"{endpoint.rstrip('/')}/v1/traces"
            exporting = OTLPSpanExporter(endpoint=address, timeout=_EXPORT_SECONDS)
            provider.add_span_processor(BatchSpanProcessor(exporting))
    except ModuleNotFoundError as missing:
        raise TracingMissing(
            f"OTEL_EXPORTER_OTLP_ENDPOINT is set, and {missing.name} is not installed: "
            "install the extra (pip install 'lingxi[tracing]'), or unset it."
        ) from None
    _provider, _tracer = provider, provider.get_tracer("lingxi", version)
    atexit.register(stop)


def stop() -> None:
    """Trace no more, and send what is left; not for long: a process does not wait for a collector that is away."""
    global _provider, _tracer
    provider, _provider, _tracer = _provider, None, None
    if provider is not None:
        sending = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        sending.join(_LAST_SECONDS)


def on() -> bool:
    """Is anything traced in this process?"""
    return _tracer is not None


def begin(
    name: str, parent: str | None, kind: Kind = "internal", *, at_ns: int | None = None, **fields: Any
) -> Span | None:
    """A span, to be ended by `end`. `parent`: a traceparent; None: whatever is current, else a trace of its own.

    `at_ns`: when it began, if not now (Unix time). None while tracing is off.
    """
    if _tracer is None:
        return None
    from opentelemetry.trace import SpanKind

    return _tracer.start_span(
        name,
        context=_context_of(parent),
        kind=SpanKind[kind.upper()],
        start_time=at_ns,
        attributes={_attribute(key): _value(value) for key, value in fields.items() if value is not None},
    )


def begin_inside(name: str, **fields: Any) -> Span | None:
    """A span within the current one; None while there is none that is recorded."""
    return None if (parent := current()) is None else begin(name, parent, **fields)


def end(span: Span | None, *, failed: str | None = None, **fields: Any) -> None:
    """End a span; `failed`: the code of what went wrong."""
    if span is None:
        return
    for key, value in fields.items():
        if value is not None:
            span.set_attribute(_attribute(key), _value(value))
    if failed is not None:
        from opentelemetry.trace import Status, StatusCode

        span.set_status(Status(StatusCode.ERROR, failed))
    span.end()


@contextmanager
def within(span: Span | None) -> Iterator[None]:
    """The span is current: what begins without a parent of its own belongs to it. It is not ended."""
    if span is None:
        yield
        return
    from opentelemetry.trace import use_span

    with use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        yield


def task_context(span: Span | None) -> contextvars.Context | None:
    """For `create_task(…, context=)`: the caller's, with the span as the current one; None, which changes nothing, for none."""
    if span is None:
        return None
    from opentelemetry.context import attach
    from opentelemetry.trace import set_span_in_context

    context = contextvars.copy_context()
    context.run(lambda: attach(set_span_in_context(span)))
    return context


def traceparent_of(span: Span | None) -> str | None:
    """What goes to another process, so that its spans belong below this one; None for none, or one that is not sampled."""
    if span is None:
        return None
    context = span.get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def current() -> str | None:
    """The traceparent of the current span; None while nothing is traced."""
    if _tracer is None:
        return None
    from opentelemetry.trace import get_current_span

    return traceparent_of(get_current_span())


def is_traceparent(text: object) -> bool:
    """Is this one of version 00, with ids that are not all zero?"""
    return isinstance(text, str) and _TRACEPARENT.fullmatch(text) is not None


def _context_of(parent: str | None) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if parent is None:
        return None
    match = _TRACEPARENT.fullmatch(parent)
    if match is None:
        return Context()
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    return set_span_in_context(
        NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))),
        Context(),
    )


def _attribute(key: str) -> str:
    return f"lingxi.{key}"


def _value(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float) else str(value)
