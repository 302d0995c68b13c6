"""Objects: bytes under a name, streamed in and out. What goes out is never run: attachment, nosniff, sandbox."""

import base64
import re
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api.answers import json_answer, object_to_wire
from lingxi.api.auth import Editor, Viewer
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.documented import documented
from lingxi.api.stored_bytes import BytesResponse, Stored
from lingxi.db.session import transaction
from lingxi.domain.errors import Conflict, LingxiError, MalformedRequest, TooLarge
from lingxi.observability import failpoints
from lingxi.services.get_object import StoredObject, checked_object_name, get_object
from lingxi.services.put_object import put_object, receive_object
from lingxi.services.record_audit import record_audit
from lingxi.storage.errors import ObjectMissing, StorageUnavailable

router = APIRouter(prefix="/api/v1", tags=["Objects"])

PREFIX = "/api/v1/objects/"
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_BAD_NAME = MalformedRequest("The name has the segment '..'.")
_BYTES = {
    "application/octet-stream": {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}
}
_OTHER_BYTES = Conflict("An object with this name exists and has other bytes.")
_TOO_LARGE = TooLarge("The object is larger than 2147483648 bytes.")

ObjectName = Annotated[
    str,
    Path(
        description="1 to 255 characters in segments divided by `/`; none is empty, `.` or `..`. It may hold any script.",
        min_length=1,
    ),
]


@router.put(
    "/objects/{name:path}",
    **documented(
        summary="Put an object",
        status=201,
        meaning="Stored, durably. The SHA-256 is of what arrived.",
        answer=schemas.StoredObject,
        example=examples.OBJECT,
        headers=doc.LOCATION_HEADER,
        also={
            200: {
                "description": "It was there, with the same bytes.",
                "content": {
                    "application/json": {"schema": doc.ref(schemas.StoredObject), "example": examples.OBJECT}
                },
            }
        },
        errors=(*doc.AUTHENTICATED, _BAD_NAME, doc.SLOW, _OTHER_BYTES, _TOO_LARGE),
        body_content=_BYTES,
        body_required=False,  # an object may be empty
    ),
)
async def put(request: Request, caller: Editor, name: ObjectName) -> Response:
    deps = deps_of(request)
    checked = checked_object_name(name)
    limit = deps.config.limits.max_object_bytes
    async with receive_object(deps.storage, _chunks(request), max_bytes=limit) as received:  # noqa: SIM117
        async with transaction(deps.pool) as connection:
            await deps.quotas.charge_bytes(connection, caller.workspace_id, received.stored.size_bytes)
            result = await put_object(connection, caller.workspace_id, checked, received)
            await failpoints.reach("api.after_insert")
            await record_audit(
                connection,
                workspace_id=caller.workspace_id,
                actor=caller.token_id,
                verb="object.put",
                target=f"object:{result.object.name}",
                request_id=request.scope["request_id"],
            )
            await failpoints.reach("api.before_commit")
    status = 201 if result.created else 200
    return json_answer(object_to_wire(result.object), status, location_of(result.object))


def location_of(stored: StoredObject) -> dict[str, str]:
    """The header that says where an object is."""
    return {"Location": PREFIX + quote(stored.name, safe="/")}


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        if chunk:
            yield chunk


_GET = documented(
    summary="Get an object",
    meaning="The bytes, as an attachment.",
    content=_BYTES,
    headers={
        "ETag": {"description": "The SHA-256 of the bytes.", "schema": {"type": "string"}},
        "Repr-Digest": {"description": "`sha-256=:…:` (RFC 9530).", "schema": {"type": "string"}},
    },
    also={206: {"description": "The part that `Range: bytes=…` asked for.", "content": _BYTES}},
    errors=(*doc.AUTHENTICATED, _BAD_NAME, doc.NOT_FOUND),
)


@router.get("/objects/{name:path}", **_GET)
async def get(request: Request, caller: Viewer, name: ObjectName) -> Response:
    deps = deps_of(request)
    return await send_object(request, await _find(deps, caller, name))


async def send_object(request: Request, stored: StoredObject) -> Response:
    """The bytes of an object, or the part that the request asks for."""
    start, length = _asked_range(request.headers.get("range"), stored.size_bytes)
    try:
        reader = await deps_of(request).storage.open(stored.storage_key, start=start, length=length)
    except (ObjectMissing, StorageUnavailable) as error:
        raise LingxiError("The object's bytes cannot be read now.") from error
    found = Stored(stored.storage_key, stored.size_bytes, stored.sha256, stored.content_type)
    return BytesResponse(reader, length, found, _headers(stored, start, length))


@router.head(
    "/objects/{name:path}", **{**_GET, "summary": "Get an object's headers", "operation_id": "head_object"}
)
async def head(request: Request, caller: Viewer, name: ObjectName) -> Response:
    stored = await _find(deps_of(request), caller, name)
    return Response(None, 200, _headers(stored, 0, stored.size_bytes), stored.content_type)


async def _find(deps: ApiDeps, caller: Viewer, name: str) -> StoredObject:
    async with deps.pool.acquire(timeout=5) as connection:
        return await get_object(connection, caller.workspace_id, name)


def _asked_range(header: str | None, size_bytes: int) -> tuple[int, int]:
    """Start and length. One range of bytes is honoured; anything else is the whole object, as RFC 9110 allows."""
    match = _RANGE.fullmatch(header) if header else None
    if match is None or match.groups() == ("", ""):
        return 0, size_bytes
    first, last = match.groups()
    if not first:  # the last n bytes
        start = max(0, size_bytes - int(last))
        return start, size_bytes - start
    start = int(first)
    end = min(int(last), size_bytes - 1) if last else size_bytes - 1
    return (start, end - start + 1) if start <= end else (0, size_bytes)


def _headers(stored: StoredObject, start: int, length: int) -> dict[str, str]:
    basename = stored.name.rsplit("/", 1)[-1]
    headers = {
        "Content-Length": str(length),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(basename, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
        "Accept-Ranges": "bytes",
        "ETag": f'"{stored.sha256.hex()}"',
        "Repr-Digest": f"sha-256=:{base64.b64encode(stored.sha256).decode()}:",
    }
    if length != stored.size_bytes:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{stored.size_bytes}"
    return headers
