"""Media that lie in the bucket already become objects; objects get links that open without a token for a while."""

import struct
from datetime import UTC, datetime, timedelta
from uuid import UUID

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api import storage_schemas as shapes
from lingxi.api.answers import json_answer, object_to_wire
from lingxi.api.auth import Editor, Viewer
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import read_json, refuse_unknown_query, validated
from lingxi.api.routes.objects import location_of, send_object
from lingxi.api.signing import Signer
from lingxi.db.session import transaction
from lingxi.domain.errors import Conflict, NotFound, TooLarge, Unauthenticated
from lingxi.domain.wire import time_to_wire
from lingxi.services.get_object import StoredObject, checked_object_name, get_object
from lingxi.services.record_audit import record_audit
from lingxi.services.register_object import check_may_register, read_media, register_object
from lingxi.services.workspaces import find_workspace

router = APIRouter(prefix="/api/v1", tags=["Objects"])

_PURPOSE = "object link"
_FIELDS = struct.Struct(">I16s")
_REGISTRATION = TypeAdapter(shapes.MediaRegistration)
_LINK = TypeAdapter(shapes.LinkRequest)
_AN_OBJECT = {"application/json": {"schema": doc.ref(schemas.StoredObject), "example": examples.OBJECT}}
_OTHER_BYTES = Conflict("An object with this name exists and has other bytes.")
_BAD_LINK = Unauthenticated("This link is not valid, or not any more.")
_TOO_LARGE = TooLarge("The object is larger than 2147483648 bytes.")


@router.post(
    "/objects",
    **documented(
        summary="Register media that lie in the bucket already",
        status=201,
        meaning="They are an object now, and stay where they are. They were read once for size, SHA-256 and type.",
        answer=schemas.StoredObject,
        example=examples.OBJECT,
        headers=doc.LOCATION_HEADER,
        also={200: {"description": "It was there, with the same bytes.", "content": _AN_OBJECT}},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _OTHER_BYTES, _TOO_LARGE),
        body=shapes.MediaRegistration,
        body_example={"name": "shoot/IMG_0001.jpg", "mediaKey": "archive/2026/IMG_0001.jpg"},
    ),
)
async def register(request: Request, caller: Editor) -> Response:
    refuse_unknown_query(request, ())
    deps = deps_of(request)
    given = validated(_REGISTRATION, await read_json(request))
    name = checked_object_name(given.name)
    async with deps.pool.acquire(timeout=5) as connection:
        await check_may_register(connection, caller.workspace_id, given.media_key)
    media = await read_media(deps.storage, given.media_key, max_bytes=deps.config.limits.max_object_bytes)
    async with transaction(deps.pool) as connection:
        result = await register_object(connection, caller.workspace_id, name, media)
        await record_audit(
            connection,
            workspace_id=caller.workspace_id,
            actor=caller.token_id,
            verb="object.register",
            target=f"object:{result.object.name}",
            request_id=request.scope["request_id"],
        )
    return json_answer(
        object_to_wire(result.object), 201 if result.created else 200, location_of(result.object)
    )


@router.post(
    "/object-links",
    **documented(
        summary="Make a link to an object's bytes",
        meaning="Whoever has the link gets the bytes as an attachment until it expires.",
        answer=shapes.ObjectLink,
        example={"url": "/api/v1/signed-objects/…", "expiresAt": "2026-12-01T20:05:00.000000Z"},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body=shapes.LinkRequest,
        body_example={"name": "shoot/IMG_0001.jpg", "lifetimeSeconds": 300},
    ),
)
async def link(request: Request, caller: Viewer) -> Response:
    refuse_unknown_query(request, ())
    deps = deps_of(request)
    given = validated(_LINK, await read_json(request))
    async with deps.pool.acquire(timeout=5) as connection:
        stored = await get_object(connection, caller.workspace_id, given.name)
    expires_at = datetime.fromtimestamp(int(deps.clock()), UTC) + timedelta(seconds=given.lifetime_seconds)
    signed = await deps.storage.signed_get(
        stored.storage_key,
        lifetime_seconds=given.lifetime_seconds,
        file_name=stored.name.rsplit("/", 1)[-1],
        content_type=stored.content_type,
    )
    if signed is None:
        fields = _FIELDS.pack(int(expires_at.timestamp()), caller.workspace_id.bytes)
        token = Signer(deps.config.secret_keys).seal(_PURPOSE, fields + stored.name.encode())
        return json_answer({"url": f"/api/v1/signed-objects/{token}", "expiresAt": time_to_wire(expires_at)})
    return json_answer({"url": signed.url, "expiresAt": time_to_wire(expires_at)})


@router.get(
    "/signed-objects/{token}",
    **documented(
        summary="Get an object's bytes by a link",
        meaning="The bytes, as an attachment. The link is all that is needed.",
        content=doc.BYTES,
        headers=doc.BYTES_HEADERS,
        also={206: {"description": "The part that `Range: bytes=…` asked for.", "content": doc.BYTES}},
        errors=(doc.BAD_REQUEST, _BAD_LINK, doc.NOT_FOUND, doc.INTERNAL, doc.NO_POSTGRESQL),
    ),
)
async def get_signed(request: Request, token: str) -> Response:
    deps = deps_of(request)
    opened = Signer(deps.config.secret_keys).open(_PURPOSE, token)
    if opened is None or len(opened) <= _FIELDS.size:
        raise _BAD_LINK
    expires_at, workspace = _FIELDS.unpack(opened[: _FIELDS.size])
    if deps.clock() >= expires_at:
        raise _BAD_LINK
    async with deps.pool.acquire(timeout=5) as connection:
        owner = await find_workspace(connection, str(UUID(bytes=workspace)))
        if owner is None or owner.disabled_at is not None:
            raise NotFound
        stored: StoredObject = await get_object(connection, owner.id, opened[_FIELDS.size :].decode())
    return await send_object(request, stored)
