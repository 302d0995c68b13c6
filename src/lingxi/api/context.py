"""The outermost layer of a request: its id, the headers that every answer carries, and one access line in the log."""

import re
import time
import uuid

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lingxi.observability import tracing
from lingxi.observability.http import RequestMetrics
from lingxi.observability.logging import get_logger

_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_QUIET = ("/health/", "/metrics")  # asked every few seconds by machines: logged at debug
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_CLIENT_CLOSED = 499  # for the log only: nobody was left to answer
OPEN_ENDED = (
    "lingxi.open_ended"  # in the scope of an event stream: its latency is the time until its answer begins
)

_log = get_logger(__name__)


class RequestContext:
    """Gives each request an id (`X-Request-Id`, the client's own if it is sane) and logs one line when it ends.

    The line names the route's template, never the address: queries and object names stay out of the log.
    """

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope["request_id"] = request_id
        status = 0
        began_seconds: float | None = None  # of an answer that goes on until somebody leaves

        async def with_headers(message: Message) -> None:
            nonlocal status, began_seconds
            if message["type"] == "http.response.start":
                status = message["status"]
                if scope.get(OPEN_ENDED):
                    began_seconds = time.perf_counter() - started
                message = {
                    **message,
                    "headers": [*message.get("headers", ()), *_headers(request_id, message)],
                }
            await send(message)

        started = time.perf_counter()
        span = tracing.begin("request", _traceparent(scope), "server", request_id=request_id)
        with structlog.contextvars.bound_contextvars(request_id=request_id), tracing.within(span):
            try:
                await self._app(scope, receive, with_headers)
            finally:
                self._finished(scope, status, time.perf_counter() - started, began_seconds)
                if span is not None:
                    span.update_name(f"{scope['method']} {_template(scope)}")
                    tracing.end(span, failed=f"{status}" if status >= 500 else None, status=status)

    def _finished(self, scope: Scope, status: int, seconds: float, began_seconds: float | None) -> None:
        if scope.get("client_gone") and not status:
            status = _CLIENT_CLOSED
        template = _template(scope)
        method = scope["method"] if template != "unknown" else "OTHER"
        self._metrics.observe(method, template, status, seconds if began_seconds is None else began_seconds)
        log = _log.debug if any(part in template for part in _QUIET) else _log.info
        log(
            "request_finished",
            method=scope["method"],
            route=template,
            status=status,
            duration_ms=round(seconds * 1000, 1),
            **({"task_id": task_id} if (task_id := scope.get("path_params", {}).get("taskId")) else {}),
        )


def _template(scope: Scope) -> str:
    """The route that answered, as it is written in the code; pages are named by their handler."""
    if (route := scope.get("route")) is not None:
        return str(route.path)
    endpoint = scope.get("endpoint")
    return "unknown" if endpoint is None else f"page:{getattr(endpoint, '__name__', 'other')}"


def _traceparent(scope: Scope) -> str | None:
    """The trace that the client's request belongs to, as it says; None while nothing is traced."""
    if not tracing.on():
        return None
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"]
    return given[0] if len(given) == 1 and tracing.is_traceparent(given[0]) else None


def _headers(request_id: str, message: Message) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in message.get("headers", ())}
    return [
        (b"x-request-id", request_id.encode()),
        *(pair for pair in SECURITY_HEADERS if pair[0] not in given),
    ]


def _request_id(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(given) == 1 and _SANE_ID.fullmatch(given[0]):
        return str(given[0].decode())
    return uuid.uuid4().hex
