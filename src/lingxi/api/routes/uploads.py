"""Photos into an album: many files in one streamed form. Resumable uploads are in `tus.py`.

Each file goes straight to storage while it arrives; then all of them get their rows, jobs and events in one transaction, with the
audit row and the remembered answer. A refused file refuses no other.
"""

import hashlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import album_examples as examples
from lingxi.api import album_schemas as schemas
from lingxi.api import documented as doc
from lingxi.api.album_changes import AlbumIdText, audited_change, own_album
from lingxi.api.answers import json_answer
from lingxi.api.auth import Caller, Editor
from lingxi.api.changes import Done, idempotency_key
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.documented import documented
from lingxi.api.file_refusals import problem_of
from lingxi.api.header_parameters import header_parameters
from lingxi.api.multipart import MultipartReader, boundary_of
from lingxi.db.session import Connection
from lingxi.domain.errors import LingxiError, MalformedRequest, TooLarge, UnsupportedContent
from lingxi.domain.file_names import shown_file_name
from lingxi.domain.photos import Photo, photo_problem, photo_to_wire
from lingxi.services.add_photo import add_photo
from lingxi.services.receive_photo import (
    ReceivedPhoto,
    discard_unrecorded,
    receive_photo,
    too_large_sentence,
)

router = APIRouter(prefix="/api/v1", tags=["Albums"])

_FIELD_BYTES = 64 * 1024  # of a form's field that is no file; it is read over
_FORM = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "description": "Each part with a file name is a photo; the names of the fields say nothing.",
            "properties": {
                "files": {
                    "type": "array",
                    "items": {"type": "string", "contentMediaType": "application/octet-stream"},
                }
            },
        }
    }
}


class _NothingAccepted(LingxiError):
    """Several files, each refused: told in the usual answer, and nothing is written."""


@router.post(
    "/albums/{albumId}/photos",
    **documented(
        summary="Upload photos",
        status=201,
        meaning="Each file's outcome, in the order of the form; at least one is a new photo. A file that is alone and "
        "refused is answered with its problem.",
        answer=schemas.UploadedFiles,
        example=examples.UPLOADED_FILES,
        headers=doc.REPLAYED_HEADER,
        also={
            200: {
                "description": "Each file's outcome; none is a new photo.",
                "content": {
                    "application/json": {
                        "schema": doc.ref(schemas.UploadedFiles),
                        "example": {"files": examples.UPLOADED_FILES["files"][1:]},
                    }
                },
            }
        },
        errors=(
            *doc.AUTHENTICATED,
            doc.NOT_FOUND,
            *doc.WITH_KEY,
            MalformedRequest("The form holds no file."),
            MalformedRequest("The file is empty.", status=422),
            doc.SLOW,
            TooLarge(too_large_sentence(512 * 1024**2)),
            TooLarge("The form holds more than 1000 files, the limit for one request."),
            UnsupportedContent("The file is a camera's RAW file; export it as JPEG (Nikon)."),
            LingxiError("The storage did not answer."),
        ),
        body_content=_FORM,
        parameters=[doc.KEY_PARAMETER],
    ),
)
async def upload(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    deps = deps_of(request)
    album = await own_album(request, caller, album_id)
    key = idempotency_key(request)
    boundary = boundary_of(request.headers.get("content-type"))
    files: list[ReceivedPhoto] = []
    try:
        await _receive(request, deps, boundary, files, with_digest=key is not None)
        return await _record(request, caller, album.id, key, files)
    except _NothingAccepted:
        return json_answer({"files": [_outcome(file, None) for file in files]})
    finally:
        await discard_unrecorded(deps.storage, files)


async def _receive(
    request: Request, deps: ApiDeps, boundary: bytes, files: list[ReceivedPhoto], *, with_digest: bool
) -> None:
    """Every file of the form into storage. Parts without a file name are fields: they say nothing here."""
    limits = deps.config.limits
    async for part in MultipartReader(request.stream(), boundary):
        _, parameters = header_parameters(part.headers.get("content-disposition", b""))
        if "filename" not in parameters:
            left = _FIELD_BYTES
            async for chunk in part.content:
                if (left := left - len(chunk)) < 0:
                    raise TooLarge(f"A field of the form is larger than {_FIELD_BYTES} bytes.")
            continue
        if len(files) == limits.max_photos:
            raise TooLarge(f"The form holds more than {limits.max_photos} files, the limit for one request.")
        files.append(
            await receive_photo(
                deps.storage,
                shown_file_name(parameters["filename"]),
                part.content,
                max_bytes=limits.max_photo_bytes,
                with_digest=with_digest,
            )
        )
    if not files:
        raise MalformedRequest("The form holds no file.")


async def _record(
    request: Request, caller: Caller, album_id: UUID, key: str | None, files: Sequence[ReceivedPhoto]
) -> Response:
    """Rows of all files that were stored, in one transaction; or the answer that the key remembers."""

    async def work(connection: Connection) -> Done:
        size_bytes = sum(file.new.size_bytes for file in files if file.new is not None)
        await deps_of(request).quotas.charge_bytes(connection, caller.workspace_id, size_bytes)
        outcomes = [await _add(connection, caller.workspace_id, album_id, file) for file in files]
        created = any(outcome["status"] == "created" for outcome in outcomes)
        return Done(201 if created else 200, orjson.dumps({"files": outcomes}), f"album:{album_id}")

    return await audited_change(
        request,
        caller,
        "photo.upload",
        album_id,
        work,
        key=key,
        digest=_fingerprint(files),
        refusal=_refusal_of_all(files),
    )


async def _add(
    connection: Connection, workspace_id: UUID, album_id: UUID, file: ReceivedPhoto
) -> dict[str, Any]:
    if file.new is None:
        return _outcome(file, None)
    added = await add_photo(connection, workspace_id, album_id, file.new)
    file.recorded = added.created
    return _outcome(file, added.photo)


def _outcome(file: ReceivedPhoto, photo: Photo | None) -> dict[str, Any]:
    """`{fileName, status, photo}` or `{fileName, status, error}`."""
    if photo is None:
        assert file.refusal is not None
        error = photo_problem(file.refusal.code, file.refusal.message)
        return {"fileName": file.file_name, "status": "refused", "error": error}
    status = "created" if file.recorded else "exists"
    return {"fileName": file.file_name, "status": status, "photo": photo_to_wire(photo, member=True)}


def _fingerprint(files: Sequence[ReceivedPhoto]) -> bytes:
    """What a key's request is known by: the names and the SHA-256 of its files, in their order."""
    parts = [[file.file_name, file.sha256.hex()] for file in files]
    return hashlib.sha256(orjson.dumps(parts)).digest()


def _refusal_of_all(files: Sequence[ReceivedPhoto]) -> LingxiError | None:
    """The refusal of the request: its only file's own problem, or that none of several was taken."""
    refusals = [file.refusal for file in files if file.refusal is not None]
    if len(refusals) < len(files):
        return None
    return problem_of(refusals[0]) if len(files) == 1 else _NothingAccepted("No file was accepted.")
