"""Resumable uploads into an album: tus 1.0.0 with creation, creation-with-upload, checksum, expiration and termination.

The protocol has a document of its own, so these routes are not in ours; docs/uploads.md says what is particular here.
"""

from collections.abc import Callable, Coroutine
from email.utils import format_datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import tus_headers as tus
from lingxi.api.album_changes import AlbumIdText, own_album
from lingxi.api.auth import Caller, Editor
from lingxi.api.changes import Change, Changes, Done, idempotency_key
from lingxi.api.deps import deps_of
from lingxi.api.json_body import canonical_digest
from lingxi.api.problems import problem_response
from lingxi.api.reading import id_of
from lingxi.api.upload_body import STRETCH_SECONDS, UploadBody
from lingxi.api.upload_writing import Actor, UploadWriters, UploadWriting
from lingxi.db.session import Connection
from lingxi.domain.errors import (
    LingxiError,
    MalformedRequest,
    MethodNotAllowed,
    TooLarge,
    UnsupportedContent,
)
from lingxi.domain.file_names import shown_file_name
from lingxi.services.albums import get_album
from lingxi.services.receive_photo import too_large_sentence
from lingxi.services.remember_answer import KeyScope
from lingxi.services.resumable_uploads import Upload, create_upload, get_upload

UploadIdText = Annotated[str, Path(alias="uploadId")]


class TusRoute(APIRoute):
    """Every answer, a refusal too, says which version is spoken."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def speaking_tus(request: Request) -> Response:
            try:
                response = await handler(request)
            except LingxiError as error:
                response = problem_response(
                    error, {"Tus-Version": tus.VERSION} if error.status == 412 else {}
                )
            response.headers["Tus-Resumable"] = tus.VERSION
            return response

        return speaking_tus


router = APIRouter(
    prefix="/api/v1/albums/{albumId}/uploads", route_class=TusRoute, include_in_schema=False, tags=["Albums"]
)


@router.options("")
@router.options("/{uploadId}")
async def options(request: Request) -> Response:
    return Response(
        None,
        204,
        {
            "Tus-Version": tus.VERSION,
            "Tus-Extension": tus.EXTENSIONS,
            "Tus-Max-Size": str(deps_of(request).config.limits.max_photo_bytes),
            "Tus-Checksum-Algorithm": ",".join(tus.CHECKSUM_ALGORITHMS),
        },
    )


@router.post("")
async def create(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    album = (await own_album(request, caller, album_id)).id
    key = idempotency_key(request)
    tus.refuse_other_version(request)
    tus.refuse_unknown_creation(request)
    length = tus.number_of(request, "Upload-Length")
    text, metadata = tus.metadata_of(request)
    limit = deps_of(request).config.limits.max_photo_bytes
    if length > limit:
        raise TooLarge(too_large_sentence(limit))
    if length == 0:
        raise MalformedRequest("The file is empty.", status=422)
    file_name = shown_file_name(metadata.get("filename", metadata.get("name")))
    created: list[Upload] = []

    async def work(connection: Connection) -> Done:
        await deps_of(request).quotas.charge_bytes(connection, caller.workspace_id, length)
        upload = await create_upload(
            connection, caller.workspace_id, album, file_name=file_name, length_bytes=length, metadata=text
        )
        created.append(upload)
        location = f"/api/v1/albums/{album}/uploads/{upload.id}"
        headers = {"Location": location, **_progress(upload)}
        return Done(201, b"", f"upload:{upload.id}", headers)

    changes: Changes = request.app.state.changes
    change = Change(caller.workspace_id, caller.token_id, "upload.create", request.scope["request_id"])
    scope = KeyScope(caller.workspace_id, "POST", request.scope["path"], key) if key is not None else None
    response = await changes.run_once(change, scope, canonical_digest([length, text]), work)
    if created and request.headers.get("content-type") == tus.BODY_TYPE:
        upload = await _append(request, caller, created[0], 0)
        response.headers.update(_progress(upload))
    return response


@router.head("/{uploadId}")
async def head(request: Request, caller: Editor, album_id: AlbumIdText, upload_id: UploadIdText) -> Response:
    """Whoever asks is about to go on: a request that still writes, and whose client is silent, ends and keeps what it has."""
    tus.refuse_other_version(request)
    upload = await _upload(request, caller, album_id, upload_id)
    if upload.photo_id is None:
        async with _writers(request).alone(upload.id):
            upload = await _upload(request, caller, album_id, upload_id)
            if upload.photo_id is None and upload.received_bytes == upload.length_bytes:
                upload = await _writing(request, caller).complete(upload)
    headers = {"Upload-Length": str(upload.length_bytes), "Cache-Control": "no-store", **_progress(upload)}
    if upload.metadata:
        headers["Upload-Metadata"] = upload.metadata
    return Response(None, 200, headers)


@router.patch("/{uploadId}")
async def patch(request: Request, caller: Editor, album_id: AlbumIdText, upload_id: UploadIdText) -> Response:
    upload = await _upload(request, caller, album_id, upload_id)
    tus.refuse_other_version(request)
    if request.headers.get("content-type") != tus.BODY_TYPE:
        raise UnsupportedContent(f"Content-Type must be {tus.BODY_TYPE}.")
    offset = tus.number_of(request, "Upload-Offset")
    upload = await _append(request, caller, upload, offset)
    return Response(None, 204, _progress(upload))


@router.delete("/{uploadId}")
async def terminate(
    request: Request, caller: Editor, album_id: AlbumIdText, upload_id: UploadIdText
) -> Response:
    upload = await _upload(request, caller, album_id, upload_id)
    tus.refuse_other_version(request)
    async with _writers(request).alone(upload.id):
        await _writing(request, caller).terminate(upload)
    return Response(None, 204)


_OVERRIDABLE = {"HEAD": head, "PATCH": patch, "DELETE": terminate}


@router.post("/{uploadId}")
async def override(
    request: Request, caller: Editor, album_id: AlbumIdText, upload_id: UploadIdText
) -> Response:
    """For clients that can only GET and POST: `X-HTTP-Method-Override: PATCH`."""
    meant = _OVERRIDABLE.get(request.headers.get("x-http-method-override", "").upper())
    if meant is None:
        raise MethodNotAllowed("POST needs X-HTTP-Method-Override with PATCH, HEAD or DELETE here.")
    return await meant(request, caller, album_id, upload_id)


async def _append(request: Request, caller: Caller, upload: Upload, offset: int) -> Upload:
    checksum = tus.checksum_of(request)
    left = upload.length_bytes - offset
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max(0, left):
        raise TooLarge(f"More bytes than the Upload-Length: at this offset at most {max(0, left)} bytes.")
    body = UploadBody(
        request,
        left,
        checksum.algorithm if checksum else None,
        None if checksum else STRETCH_SECONDS,
    )
    writers = _writers(request)
    async with writers.alone(upload.id):
        writers.reading(upload.id, body)
        return await _writing(request, caller).append(
            upload, offset, body, checksum.digest if checksum else None
        )


async def _upload(request: Request, caller: Caller, album_text: str, upload_text: str) -> Upload:
    """NotFound, in the same words, for another workspace's album, an unknown upload, and one that has expired."""
    album_id, upload_id = id_of(album_text), id_of(upload_text)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        await get_album(connection, caller.workspace_id, album_id)
        return await get_upload(connection, album_id, upload_id)


def _writers(request: Request) -> UploadWriters:
    writers: UploadWriters = request.app.state.upload_writers
    return writers


def _writing(request: Request, caller: Caller) -> UploadWriting:
    return UploadWriting(deps_of(request), Actor(caller.token_id, request.scope["request_id"]))


def _progress(upload: Upload) -> dict[str, str]:
    """Where the upload is; and its photo, once there is one."""
    headers = {
        "Upload-Offset": str(upload.received_bytes),
        "Upload-Expires": format_datetime(upload.expires_at, usegmt=True),
    }
    if upload.photo_id is not None:
        headers["Lingxi-Photo-Id"] = str(upload.photo_id)
        headers["Lingxi-Photo-Created"] = "true" if upload.photo_created else "false"
    return headers
