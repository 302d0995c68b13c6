"""Uploads that go straight to storage: sign an address, send the bytes there, confirm. Only where storage is an S3 server."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import album_examples, examples
from lingxi.api import documented as doc
from lingxi.api import storage_schemas as shapes
from lingxi.api.answers import json_answer, object_to_wire
from lingxi.api.auth import Caller, Editor
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.documented import documented
from lingxi.api.file_refusals import problem_of
from lingxi.api.reading import id_of, read_json, read_nothing, refuse_unknown_query, validated
from lingxi.db.session import Connection, transaction
from lingxi.domain.errors import Conflict, LingxiError, NotFound, TooLarge
from lingxi.domain.file_names import shown_file_name
from lingxi.domain.photos import Photo, photo_to_wire
from lingxi.domain.wire import time_to_wire
from lingxi.services.albums import get_album
from lingxi.services.confirm_upload import (
    confirm_object,
    confirm_photo,
    forget_incoming,
    receive_direct_photo,
    receive_direct_upload,
)
from lingxi.services.direct_uploads import (
    DirectUpload,
    begin_direct_upload,
    get_direct_upload,
    sign_direct_upload,
)
from lingxi.services.get_object import StoredObject, checked_object_name, get_object
from lingxi.services.read_photos import get_photo
from lingxi.services.record_audit import record_audit

router = APIRouter(prefix="/api/v1", tags=["Objects"])

_REQUEST = TypeAdapter(shapes.DirectUploadRequest)
_NO_ADDRESS = Conflict(
    "Files of this server lie in a folder, which takes no direct uploads: send the bytes to the API."
)
_NOT_THERE = Conflict("Nothing has arrived under the signed address yet.")
_TOO_LARGE = TooLarge("The object is larger than 2147483648 bytes.")
UploadIdText = Annotated[
    str, Path(alias="uploadId", description="The upload's id.", json_schema_extra={"format": "uuid"})
]


@router.post(
    "/object-uploads",
    **documented(
        summary="Begin an upload that goes straight to storage",
        status=201,
        meaning="The address takes exactly the size that was announced, for a quarter of an hour.",
        answer=shapes.DirectUpload,
        example={
            "id": "5b0d7c1e-0a55-4f5b-9c53-3d8a6b1f7e20",
            "method": "PUT",
            "url": "https://s3.example/media/incoming/5b0d7c1e?X-Amz-Signature=…",
            "headers": {"Content-Length": "2481152", "x-amz-meta-lingxi": "1"},
            "expiresAt": "2026-12-01T20:15:00.000000Z",
        },
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _NO_ADDRESS, _TOO_LARGE),
        body=shapes.DirectUploadRequest,
        body_example={"name": "shoot/IMG_0001.jpg", "sizeBytes": 2481152},
    ),
)
async def begin(request: Request, caller: Editor) -> Response:
    refuse_unknown_query(request, ())
    deps = deps_of(request)
    given = validated(_REQUEST, await read_json(request))
    album_id = None if given.album_id is None else id_of(given.album_id)
    if album_id is not None:
        async with deps.pool.acquire(timeout=5) as connection:
            await get_album(connection, caller.workspace_id, album_id)
    name = checked_object_name(given.name) if album_id is None else shown_file_name(given.name)
    if given.size_bytes > (limit := _limit(deps, photo=album_id is not None)):
        raise TooLarge(f"The file is larger than {limit} bytes, the limit here.")
    upload_id, signed = await sign_direct_upload(deps.storage, given.size_bytes)
    async with transaction(deps.pool) as connection:
        await deps.quotas.charge_bytes(connection, caller.workspace_id, given.size_bytes)
        upload = await begin_direct_upload(
            connection,
            upload_id,
            caller.workspace_id,
            name,
            size_bytes=given.size_bytes,
            sha256=None if given.sha256 is None else bytes.fromhex(given.sha256),
            album_id=album_id,
        )
        await _audit(connection, request, caller, "upload.begin", f"upload:{upload.id}")
    return json_answer(
        {
            "id": str(upload.id),
            "method": signed.method,
            "url": signed.url,
            "headers": dict(signed.headers),
            "expiresAt": time_to_wire(upload.expires_at),
        },
        201,
    )


@router.post(
    "/object-uploads/{uploadId}/confirm",
    **documented(
        summary="Confirm an upload that went straight to storage",
        status=201,
        meaning="The bytes are looked at, and are an object or a photo now.",
        answer=shapes.ConfirmedUpload,
        example={"object": examples.OBJECT, "photo": None},
        also={
            200: {
                "description": "It was confirmed before, or the same bytes were there.",
                "content": {
                    "application/json": {
                        "schema": doc.ref(shapes.ConfirmedUpload),
                        "example": {"object": None, "photo": album_examples.PHOTO},
                    }
                },
            }
        },
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _NOT_THERE, _TOO_LARGE),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def confirm(request: Request, caller: Editor, upload_id: UploadIdText) -> Response:
    deps = deps_of(request)
    wanted = id_of(upload_id)
    async with deps.pool.acquire(timeout=5) as connection:
        upload = await get_direct_upload(connection, caller.workspace_id, wanted)
    refuse_unknown_query(request, ())
    await read_nothing(request)
    if upload.confirmed_at is None:
        try:
            if upload.album_id is None:
                answer = await _confirm_object(request, caller, upload)
            else:
                answer = await _confirm_photo(request, caller, upload)
        except LingxiError:
            # Another confirmation may have been first, and have removed what arrived while this one read it.
            async with deps.pool.acquire(timeout=5) as connection:
                upload = await get_direct_upload(connection, caller.workspace_id, wanted)
            if upload.confirmed_at is None:
                raise
        else:
            await forget_incoming(deps.storage, upload)
            return answer
    async with deps.pool.acquire(timeout=5) as connection:
        return await _as_it_was(connection, upload)


async def _confirm_object(request: Request, caller: Caller, upload: DirectUpload) -> Response:
    deps = deps_of(request)
    limit = _limit(deps, photo=False)
    async with receive_direct_upload(deps.storage, upload, max_bytes=limit) as received:  # noqa: SIM117
        async with transaction(deps.pool) as connection:
            put = await confirm_object(connection, upload, received)
            await _audit(connection, request, caller, "object.put", f"object:{put.object.name}")
    return _answer(201 if put.created else 200, stored=put.object)


async def _confirm_photo(request: Request, caller: Caller, upload: DirectUpload) -> Response:
    deps = deps_of(request)
    limit = _limit(deps, photo=True)
    async with receive_direct_photo(deps.storage, upload, max_bytes=limit) as received:
        if received.refusal is not None:
            raise problem_of(received.refusal)
        async with transaction(deps.pool) as connection:
            added = await confirm_photo(connection, upload, received)
            await _audit(connection, request, caller, "photo.upload", f"album:{upload.album_id}")
    deps.hints.publish_outbox()
    if upload.album_id is not None:
        deps.hints.publish_albums([upload.album_id])
    return _answer(201 if added.created else 200, photo=added.photo)


async def _as_it_was(connection: Connection, upload: DirectUpload) -> Response:
    """What a confirmation has made, as it is now; NotFound when that is gone."""
    if upload.album_id is None:
        return _answer(200, stored=await get_object(connection, upload.workspace_id, upload.name))
    photo = None
    if upload.photo_id is not None:
        photo = await get_photo(connection, upload.album_id, upload.photo_id)
    if photo is None:
        raise NotFound
    return _answer(200, photo=photo)


def _answer(status: int, *, stored: StoredObject | None = None, photo: Photo | None = None) -> Response:
    body: dict[str, Any] = {
        "object": None if stored is None else object_to_wire(stored),
        "photo": None if photo is None else photo_to_wire(photo, member=True),
    }
    return json_answer(body, status)


def _limit(deps: ApiDeps, *, photo: bool) -> int:
    limits = deps.config.limits
    return limits.max_photo_bytes if photo else limits.max_object_bytes


async def _audit(connection: Connection, request: Request, caller: Caller, verb: str, target: str) -> None:
    await record_audit(
        connection,
        workspace_id=caller.workspace_id,
        actor=caller.token_id,
        verb=verb,
        target=target,
        request_id=request.scope["request_id"],
    )
