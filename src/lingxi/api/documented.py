"""What the OpenAPI document says about a route, next to the route: its answers with examples, its body, all its errors.

`**documented(…)` goes into the route's decorator; `openapi.py` puts the document together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from lingxi.api import problems
from lingxi.domain.errors import (
    Conflict,
    FieldError,
    Forbidden,
    KeyReused,
    LingxiError,
    MalformedKey,
    MalformedRequest,
    NotFound,
    OverLimit,
    PostgresUnavailable,
    RedisUnavailable,
    SchemaError,
    TooLarge,
    TooSlow,
    Unauthenticated,
    UnsupportedContent,
)

# ── errors, each as it looks ─────────────────────────────────────────────────────────────────────────────
MALFORMED = MalformedRequest("The body is not JSON: trailing comma is not allowed at line 1, column 8.")
BAD_REQUEST = MalformedRequest("The Host header names no host that this server answers for.")
BAD_CURSOR = MalformedRequest("cursor: it is not one that this listing gave out.")
INVALID = SchemaError(
    "items[16].input.expectedSha256: Field required.",
    [FieldError("items[16].input.expectedSha256", "Field required")],
)
BAD_QUERY = SchemaError(
    "limit: Input should be less than or equal to 500.",
    [FieldError("limit", "Input should be less than or equal to 500")],
)
BAD_KEY = MalformedKey("Idempotency-Key must be 1 to 255 visible ASCII characters.")
NO_TOKEN = Unauthenticated("A token is needed: Authorization: Bearer lx_….")
ROLE_TOO_LOW = Forbidden("This needs a token with the role editor or higher.")
NOT_FOUND = NotFound()
SLOW = TooSlow("The body came too slowly.")
STATE = Conflict("The task has ended; there is nothing left to cancel.")
KEY_REUSED = KeyReused("This Idempotency-Key was used with a different body.")
LARGE = TooLarge("The body is larger than 16777216 bytes, the limit here.")
NOT_JSON = UnsupportedContent("Content-Type must be application/json.")
INTERNAL = LingxiError(problems.INTERNAL_DETAIL)
NO_REDIS = RedisUnavailable("Redis cannot serve now; try again.")
NO_POSTGRESQL = PostgresUnavailable("PostgreSQL cannot serve now; try again.")

OPERATORS = Forbidden("An operator's token belongs to no workspace and cannot be used here.")
TOO_MANY_STREAMS = OverLimit(
    "There are 10000 open streams with this token or share link, which is the most.", retry_after_seconds=10
)
TOO_OFTEN = OverLimit("Too many requests from this address; wait a little.", retry_after_seconds=1)
OVER_QUOTA = OverLimit("The workspace may make 600 requests a minute.", retry_after_seconds=1)

AUTHENTICATED = (BAD_REQUEST, NO_TOKEN, ROLE_TOO_LOW, INTERNAL, NO_POSTGRESQL, OVER_QUOTA)
SHARED_MARK = "x-share-link"  # of routes that a share link opens
SHARED = (BAD_REQUEST, NO_TOKEN, OPERATORS, INTERNAL, NO_POSTGRESQL, TOO_OFTEN)
WITH_BODY = (MALFORMED, INVALID, SLOW, LARGE, NOT_JSON)
WITH_KEY = (BAD_KEY, KEY_REUSED)

_MEANINGS = {
    400: "The request is malformed.",
    401: "A valid token is needed.",
    403: "The token's role does not allow this.",
    404: "There is no such thing here; the same for what belongs to another workspace.",
    408: "The body came too slowly.",
    409: "Not possible in this state, or the key was used with a different body.",
    413: "Over a limit; the limit is in the answer.",
    415: "The content is of no accepted type.",
    416: "The range begins behind the end; `Content-Range` says the size.",
    422: "It breaks the schema; `errors` says which field and why.",
    429: "Asked too often; `Retry-After` says when to try again.",
    500: "Internal error.",
    503: "A server that this needs is unavailable.",
}
KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Remembered for 24 h with method and path: the same key with the same body is answered as the first time, "
    "with `Idempotent-Replayed: true`.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]{1,255}$"},
}
REPLAYED_HEADER = {
    "Idempotent-Replayed": {
        "description": "`true` on a replay.",
        "schema": {"type": "string", "const": "true"},
    }
}
EMPTY_BODY = {"application/json": {"schema": {"type": "object", "maxProperties": 0}, "example": {}}}
LOCATION_HEADER = {"Location": {"description": "Where it is.", "schema": {"type": "string"}}}
BYTES = {"image/*": {"schema": {"type": "string", "contentMediaType": "image/*"}}}
BYTES_HEADERS = {
    "ETag": {"description": "Strong: the SHA-256 of the bytes.", "schema": {"type": "string"}},
    "Accept-Ranges": {"schema": {"type": "string", "const": "bytes"}},
}


def parts(content: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The further answers of a route that serves bytes."""
    return {
        206: {"description": "The part that `Range: bytes=…` asked for.", "content": content},
        304: {"description": "`If-None-Match` names what is there."},
    }


PARTS = parts(BYTES)


def ref(model: type[BaseModel]) -> dict[str, str]:
    """A reference to a model of `schemas.py`."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def documented(
    *,
    summary: str,
    errors: Sequence[LingxiError],
    status: int = 200,
    meaning: str = "As asked.",
    answer: type[BaseModel] | None = None,
    example: Any = None,
    content: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    also: Mapping[int, Mapping[str, Any]] | None = None,
    body: type[BaseModel] | None = None,
    body_example: Any = None,
    body_content: Mapping[str, Any] | None = None,
    body_required: bool = True,
    parameters: Sequence[Mapping[str, Any]] = (),
    shared: bool = False,
) -> dict[str, Any]:
    """Keyword arguments for FastAPI's route decorators. `also` holds further successful answers, by status.

    `shared`: the cookie of a share link opens it, too.
    """
    success: dict[str, Any] = {"description": meaning}
    if answer is not None:
        success["content"] = {"application/json": {"schema": ref(answer), "example": example}}
    if content is not None:
        success["content"] = content
    if headers:
        success["headers"] = headers
    extra: dict[str, Any] = {}
    if body is not None:
        body_content = {"application/json": {"schema": ref(body), "example": body_example}}
    if body_content is not None:
        extra["requestBody"] = {"required": body_required, "content": body_content}
    if parameters:
        extra["parameters"] = list(parameters)
    if shared:
        extra[SHARED_MARK] = True
    return {
        "summary": summary,
        "status_code": status,
        "response_class": Response,
        "response_model": None,
        "responses": {status: success, **(also or {}), **_problem_responses(errors)},
        "openapi_extra": extra,
    }


def _problem_responses(errors: Sequence[LingxiError]) -> dict[int, dict[str, Any]]:
    """One entry a status, with an example for each code and case."""
    by_status: dict[int, dict[str, Any]] = {}
    for error in errors:
        examples = by_status.setdefault(error.status, {})
        name = str(error.code) if str(error.code) not in examples else f"{error.code}-{len(examples) + 1}"
        examples[name] = {"summary": error.title, "value": problems.problem_body(error)}
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {
                problems.MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "examples": examples,
                }
            },
        }
        for status, examples in sorted(by_status.items())
    }
