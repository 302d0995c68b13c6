"""Read parts of a request: ids in the path, the JSON body, queries that must be known."""

import asyncio
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Path
from pydantic import BeforeValidator, TypeAdapter, ValidationError, WithJsonSchema
from starlette.requests import Request

from lingxi.api.json_body import OFF_LOOP_BYTES, canonical_digest, parse
from lingxi.domain.errors import FieldError, LingxiError, NotFound, SchemaError, UnsupportedContent
from lingxi.domain.ids import parse_uuid, split_item_id

T = TypeVar("T")

_JSON = re.compile(r"application/([a-z0-9.-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_MAX_QUERY_CHARACTERS = 300

TaskIdText = Annotated[
    str, Path(alias="taskId", description="The task's id.", json_schema_extra={"format": "uuid"})
]


def _moment(text: object) -> datetime:
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        raise ValueError("it must be a time like 2026-12-01T20:00:00Z")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError:
        raise ValueError("it must be a time within the years 1 to 9999") from None


Moment = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]


def task_id_of(text: str) -> UUID:
    """A task's id; NotFound for what can be none (it is not there)."""
    task_id = parse_uuid(text)
    if task_id is None or split_item_id(task_id)[1] != 0:
        raise NotFound
    return task_id


def id_of(text: str) -> UUID:
    """Any other id; NotFound for what can be none."""
    if (found := parse_uuid(text)) is None:
        raise NotFound
    return found


async def read_body(request: Request) -> bytes:
    """The body of a request that should hold JSON. UnsupportedContent for another Content-Type, TooLarge, TooSlow."""
    content_type = request.headers.get("content-type")
    if content_type is not None and not _JSON.fullmatch(content_type.strip()):
        raise UnsupportedContent("Content-Type must be application/json.")
    return await request.body()


async def off_loop(body: bytes, work: Callable[[bytes], T]) -> T:
    """`work(body)`, in a thread when the body is big, so that other requests go on meanwhile."""
    return await asyncio.to_thread(work, body) if len(body) > OFF_LOOP_BYTES else work(body)


async def read_json(request: Request) -> Any:
    """The body as strict JSON. MalformedRequest, SchemaError, TooLarge, TooSlow, UnsupportedContent."""
    return await off_loop(await read_body(request), parse)


async def read_nothing(request: Request) -> dict[str, Any]:
    """The body of a request that says nothing more: none, or an empty object."""
    if not await request.body():
        return {}
    if await read_json(request) != {}:
        raise SchemaError(
            "The body: it must be empty, or an empty object.", [FieldError("", "it must be empty")]
        )
    return {}


async def nothing_with_key(request: Request) -> tuple[bytes, LingxiError | None]:
    """As `read_nothing`, for a request with an Idempotency-Key: the digest of its body, and what is wrong with it. That is
    raised only once the key is looked at, since a key that was used comes before the body.
    """
    try:
        return canonical_digest(await read_nothing(request)), None
    except SchemaError as error:
        return canonical_digest([error.detail]), error


def validated(adapter: TypeAdapter[T], document: Any) -> T:
    """`document` as the adapter's model; SchemaError (40001, 422) that names each field."""
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        errors = [
            FieldError(".".join(map(str, e["loc"])), e["msg"].rstrip("."))
            for e in error.errors(include_url=False, include_input=False)
        ]
        raise SchemaError(f"{errors[0].field or 'The body'}: {errors[0].message}.", errors) from None


def refuse_unknown_query(request: Request, known: Collection[str], prefix: str | None = None) -> None:
    """SchemaError for a query parameter that is misspelt, given twice without need, too long, or holds a NUL."""
    for name, value in request.query_params.multi_items():
        if name not in known and not (prefix and name.startswith(prefix) and len(name) > len(prefix)):
            raise _query_error(name, "there is no such parameter")
        if "\0" in name + value:
            raise _query_error(name, "it holds a NUL character")
        if len(value) > _MAX_QUERY_CHARACTERS and name != "cursor":
            raise _query_error(name, f"it is longer than {_MAX_QUERY_CHARACTERS} characters")


def _query_error(name: str, why: str) -> SchemaError:
    shown = name[:100].replace("\0", "\\u0000")
    return SchemaError(f"{shown}: {why}.", [FieldError(shown, why)])
