"""Errors on the wire: one error class, one code, one `application/problem+json` (RFC 9457), one documented row.

A problem holds no path, id or trace id: two requests that are refused alike are answered alike, byte for byte. The
request's id is in the header `X-Request-Id`.
"""

from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lingxi.api.limits import ClientGone
from lingxi.api.stored_bytes import Unsatisfiable
from lingxi.broker.errors import BrokerUnavailable
from lingxi.db.session import is_unavailable
from lingxi.domain.errors import (
    FieldError,
    LingxiError,
    MethodNotAllowed,
    NotFound,
    PostgresUnavailable,
    RedisUnavailable,
    SchemaError,
)
from lingxi.observability.logging import get_logger

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "https://lingxi.dev/problems/"
_RETRY_AFTER_SECONDS = 2

INTERNAL_DETAIL = "Something went wrong inside; the log has it under the request's id."

_METHOD_NOT_ALLOWED = MethodNotAllowed("This address does not take this method.")

_log = get_logger(__name__)


def problem_body(error: LingxiError) -> dict[str, Any]:
    """`{type, title, status, code, detail, errors?}` of an error."""
    body: dict[str, Any] = {
        "type": f"{TYPE_PREFIX}{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
    }
    if error.errors:
        body["errors"] = [{"field": each.field, "message": each.message} for each in error.errors]
    return body


def problem_response(error: LingxiError, headers: dict[str, str] | None = None) -> Response:
    """The whole answer, with `Retry-After` where the error says when."""
    headers = dict(headers or {})
    if error.code == 40101:
        headers["WWW-Authenticate"] = 'Bearer realm="lingxi"'
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, Unsatisfiable):
        headers |= error.headers
    headers["Cache-Control"] = "no-store"
    return Response(orjson.dumps(problem_body(error)), error.status, headers, MEDIA_TYPE)


def as_lingxi_error(error: Exception) -> LingxiError:
    """What any exception becomes on the wire; what nobody foresaw is logged here, once, and is a 50001."""
    if isinstance(error, LingxiError):
        return error
    if isinstance(error, BrokerUnavailable):
        _log.warning("redis_unavailable", error=repr(error))
        return RedisUnavailable(
            "Redis cannot serve now; try again.", retry_after_seconds=_RETRY_AFTER_SECONDS
        )
    if is_unavailable(error):
        _log.warning("postgresql_unavailable", error=repr(error))
        return PostgresUnavailable(
            "PostgreSQL cannot serve now; try again.", retry_after_seconds=_RETRY_AFTER_SECONDS
        )
    _log.error("request_failed", exc_info=error)
    return LingxiError(INTERNAL_DETAIL)


class Problems:
    """Turns whatever a route raises into its problem. After the answer has begun only the connection can end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except (ClientGone, ClientDisconnect):
            scope["client_gone"] = True
        except Exception as error:
            answer = problem_response(as_lingxi_error(error))
            if not begun:
                await answer(scope, receive, send)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """The router's own refusals: no such route, or not with this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return problem_response(_METHOD_NOT_ALLOWED, {"Allow": ", ".join(_allowed_methods(request))})
    if error.status_code == 404:
        return problem_response(NotFound())
    raise error


def _allowed_methods(request: Request) -> list[str]:
    """Every method of this address; the router itself knows only those of the first route that matched."""
    routes = [
        route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE
    ]
    return sorted({method for route in routes for method in route.methods})


async def on_validation_error(request: Request, error: Exception) -> Response:
    """A path, query or header parameter that FastAPI refused."""
    assert isinstance(error, RequestValidationError)
    errors = [FieldError(".".join(str(part) for part in e["loc"][1:]), e["msg"]) for e in error.errors()]
    return problem_response(SchemaError(f"{errors[0].field}: {errors[0].message}.", errors))
