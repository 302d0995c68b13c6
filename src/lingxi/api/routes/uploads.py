"""Photos into an album: many files in one streamed form. Resumable uploads are in `tus.py`.

Each file goes straight to storage while it arrives; then all of them get their rows, jobs and events in one transaction, with the
audit row and the remembered answer. A refused file refuses no other.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api.answers import json_answer
from lingxi.api.auth import Caller, Editor
from lingxi.api.changes import Change, Changes, Done, idempotency_key
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.file_refusals import problem_of
from lingxi.api.header_parameters import header_parameters
from lingxi.api.multipart import MultipartReader, boundary_of
from lingxi.api.reading import id_of
from lingxi.db.session import Connection
from lingxi.domain.errors import (
    LingxiError,
    MalformedRequest,
    TooLarge,
)
from lingxi.domain.file_names import shown_file_name
from lingxi.domain.photos import Photo, photo_to_wire
from lingxi.services.add_photo import add_photo
from lingxi.services.albums import get_album
from lingxi.services.receive_photo import (
    ReceivedPhoto,
    discard_unrecorded,
    receive_photo,
)
from lingxi.services.remember_answer import KeyScope

router = APIRouter(prefix="/api/v1", tags=["Albums"])

_FIELD_BYTES = 64 * 1024  # of a form's field that is no file; it is read over
AlbumIdText = Annotated[
    str, Path(alias="albumId", description="The album's id.", json_schema_extra={"format": "uuid"})
]


class _NothingAccepted(LingxiError):
    """Several files, each refused: told in the usual answer, and nothing is written."""


@router.post("/albums/{albumId}/photos", include_in_schema=False)
async def upload(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    deps = deps_of(request)
    album = id_of(album_id)
    async with deps.pool.acquire(timeout=5) as connection:
        await get_album(connection, caller.workspace_id, album)
    key = idempotency_key(request)
    boundary = boundary_of(request.headers.get("content-type"))
    files: list[ReceivedPhoto] = []
    try:
        await _receive(request, deps, boundary, files, with_digest=key is not None)
        return await _record(request, caller, album, key, files)
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
    deps = deps_of(request)
    changes: Changes = request.app.state.changes
    change = Change(caller.workspace_id, caller.token_id, "photo.upload", request.scope["request_id"])
    path = request.scope["path"]
    scope = KeyScope(caller.workspace_id, request.method, path, key) if key is not None else None
    written = False

    async def work(connection: Connection) -> Done:
        nonlocal written
        outcomes = [await _add(connection, caller.workspace_id, album_id, file) for file in files]
        written = True
        created = any(outcome["status"] == "created" for outcome in outcomes)
        return Done(201 if created else 200, orjson.dumps({"files": outcomes}), f"album:{album_id}")

    response = await changes.run_once(
        change, scope, _fingerprint(files), work, refusal=_refusal_of_all(files)
    )
    if written:
        deps.hints.publish_outbox()
        deps.hints.publish_albums([album_id])
    return response


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
        error = {"code": file.refusal.code, "message": file.refusal.message}
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
