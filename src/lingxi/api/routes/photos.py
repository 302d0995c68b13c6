"""Photos of an album: list, show, hide, show again, recall, delete, where their time went, and their originals."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import album_examples as examples
from lingxi.api import album_schemas as schemas
from lingxi.api import documented as doc
from lingxi.api.album_access import AlbumAccess, album_access
from lingxi.api.album_answers import timeline_to_wire
from lingxi.api.album_changes import AlbumIdText, PhotoIdText, audited_change, own_album
from lingxi.api.answers import json_answer
from lingxi.api.auth import Caller, Editor, Viewer
from lingxi.api.changes import Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.paging import DEFAULT_LIMIT, Cursors, CursorText, Limit
from lingxi.api.reading import id_of, read_nothing, refuse_unknown_query
from lingxi.api.signing import Signer
from lingxi.api.stored_bytes import UNREADABLE, Stored, Unsatisfiable, serve
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.photos import Photo, Visibility, photo_to_wire
from lingxi.services.read_photos import get_photo, list_photos
from lingxi.services.steer_photo import delete_photo, hide_photo, recall_photo, show_photo

router = APIRouter(prefix="/api/v1", tags=["Albums"])

Steer = Callable[[Connection, UUID, UUID], Awaitable[Photo]]
_RECALLED = Conflict("The photo was recalled or deleted; that cannot be undone.")
_STEERED = (*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY)


# ── read ─────────────────────────────────────────────────────────────────────────────────────────────────
@router.get(
    "/albums/{albumId}/photos",
    **documented(
        summary="List an album's photos in its order",
        meaning="By capture time (where the photo tells it with its offset, else upload time), then upload number. A share link "
        "is told of what is published, without file names and failures.",
        answer=schemas.PhotoPage,
        example={"photos": [examples.PHOTO], "nextCursor": None},
        shared=True,
        errors=(*doc.SHARED, doc.NOT_FOUND, doc.BAD_CURSOR, doc.BAD_QUERY),
    ),
)
async def list_(
    request: Request, album_id: AlbumIdText, limit: Limit = DEFAULT_LIMIT, cursor: CursorText = None
) -> Response:
    access = await album_access(request, album_id)
    refuse_unknown_query(request, ("limit", "cursor"))
    deps = deps_of(request)
    route = f"albums/{access.album_id}/photos"
    audience = () if access.member else ("share",)
    cursors = Cursors(Signer(deps.config.secret_keys), access.workspace_id, route, audience)
    after: tuple[datetime, int] | None = None
    if cursor is not None:
        at, upload_number = cursors.open(cursor)
        after = (datetime.fromisoformat(at), upload_number)
    async with deps.pool.acquire(timeout=5) as connection:
        found = await list_photos(
            connection, access.album_id, shared_only=not access.member, after=after, limit=limit + 1
        )
    page = found[:limit]
    last = page[-1] if len(found) > limit else None
    return json_answer(
        {
            "photos": [photo_to_wire(photo, member=access.member) for photo in page],
            "nextCursor": None
            if last is None
            else cursors.seal([last.sort_at.isoformat(), last.upload_number]),
        }
    )


@router.get(
    "/albums/{albumId}/photos/{photoId}",
    **documented(
        summary="Show a photo",
        answer=schemas.Photo,
        example=examples.PHOTO,
        shared=True,
        errors=(*doc.SHARED, doc.NOT_FOUND),
    ),
)
async def show(request: Request, album_id: AlbumIdText, photo_id: PhotoIdText) -> Response:
    access = await album_access(request, album_id)
    return json_answer(photo_to_wire(await seen_photo(request, access, photo_id), member=access.member))


@router.get(
    "/albums/{albumId}/photos/{photoId}/timeline",
    **documented(
        summary="Where a photo's time went",
        meaning="When it passed each stage, and how long after the one before.",
        answer=schemas.Timeline,
        example=examples.TIMELINE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def timeline(
    request: Request, caller: Viewer, album_id: AlbumIdText, photo_id: PhotoIdText
) -> Response:
    photo = await _own_photo(request, caller, album_id, photo_id)
    return json_answer(timeline_to_wire(photo.id, photo.timeline))


_ORIGINAL = documented(
    summary="Get a photo's original file",
    meaning="The bytes as they were uploaded, as an attachment. For editors and up; for a share link where the album says so.",
    content=doc.BYTES,
    headers=doc.BYTES_HEADERS,
    also=doc.PARTS,
    shared=True,
    errors=(*doc.SHARED, doc.ROLE_TOO_LOW, doc.NOT_FOUND, Unsatisfiable(8_412_330), UNREADABLE),
)


@router.get("/albums/{albumId}/photos/{photoId}/original", **_ORIGINAL)
async def original(request: Request, album_id: AlbumIdText, photo_id: PhotoIdText) -> Response:
    access = await album_access(request, album_id, needs="editor")
    if not access.originals:
        raise NotFound
    photo = await seen_photo(request, access, photo_id)
    if photo.visibility == Visibility.RECALLED:  # its files are being removed
        raise NotFound
    stored = Stored(photo.storage_key, photo.size_bytes, photo.sha256, photo.content_type)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(photo.file_name, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-cache",
    }
    return await serve(request, deps_of(request).storage, stored, headers)


router.head(
    "/albums/{albumId}/photos/{photoId}/original",
    **{**_ORIGINAL, "summary": "Get the headers of a photo's original file"},
)(original)


# ── steer ────────────────────────────────────────────────────────────────────────────────────────────────
def _steering(summary: str, meaning: str, example: dict[str, Any], *errors: Conflict) -> dict[str, Any]:
    return documented(
        summary=summary,
        meaning=meaning,
        answer=schemas.Photo,
        example=example,
        errors=(*_STEERED, *errors),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    )


@router.post(
    "/albums/{albumId}/photos/{photoId}/hide",
    **_steering(
        "Hide a photo",
        "Out of viewers' sight; it can come back. Again is the same.",
        examples.HIDDEN,
        _RECALLED,
    ),
)
async def hide(request: Request, caller: Editor, album_id: AlbumIdText, photo_id: PhotoIdText) -> Response:
    return await _steer(request, caller, album_id, photo_id, "photo.hide", hide_photo)


@router.post(
    "/albums/{albumId}/photos/{photoId}/show",
    **_steering("Show a hidden photo again", "Back in sight. Again is the same.", examples.PHOTO, _RECALLED),
)
async def show_again(
    request: Request, caller: Editor, album_id: AlbumIdText, photo_id: PhotoIdText
) -> Response:
    return await _steer(request, caller, album_id, photo_id, "photo.show", show_photo)


@router.post(
    "/albums/{albumId}/photos/{photoId}/recall",
    **_steering(
        "Recall a photo",
        "Taken back for good; its files are removed within a day. Again is the same.",
        examples.RECALLED,
    ),
)
async def recall(request: Request, caller: Editor, album_id: AlbumIdText, photo_id: PhotoIdText) -> Response:
    return await _steer(request, caller, album_id, photo_id, "photo.recall", recall_photo)


@router.delete(
    "/albums/{albumId}/photos/{photoId}",
    **documented(
        summary="Delete a photo",
        status=204,
        meaning="It is gone for everybody; its files are removed within a day.",
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def delete(request: Request, caller: Editor, album_id: AlbumIdText, photo_id: PhotoIdText) -> Response:
    photo = await _own_photo(request, caller, album_id, photo_id)

    async def work(connection: Connection) -> Done:
        await delete_photo(connection, photo.album_id, photo.id)
        return Done(204, b"", f"photo:{photo.id}")

    return await audited_change(request, caller, "photo.delete", photo.album_id, work)


# ── what they share ──────────────────────────────────────────────────────────────────────────────────────
async def _steer(
    request: Request, caller: Caller, album_id: str, photo_id: str, verb: str, steer: Steer
) -> Response:
    photo = await _own_photo(request, caller, album_id, photo_id)
    await read_nothing(request)

    async def work(connection: Connection) -> Done:
        steered = await steer(connection, photo.album_id, photo.id)
        return Done(200, orjson.dumps(photo_to_wire(steered, member=True)), f"photo:{photo.id}")

    return await audited_change(request, caller, verb, photo.album_id, work)


async def _own_photo(request: Request, caller: Caller, album_id: str, photo_id: str) -> Photo:
    album = await own_album(request, caller, album_id)
    return await _photo(request, album.id, photo_id)


async def seen_photo(request: Request, access: AlbumAccess, photo_id: str) -> Photo:
    """The photo, if whoever asks may see it; NotFound."""
    photo = await _photo(request, access.album_id, photo_id)
    if not (access.member or photo.visible):
        raise NotFound
    return photo


async def _photo(request: Request, album_id: UUID, text: str) -> Photo:
    photo_id = id_of(text)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        photo = await get_photo(connection, album_id, photo_id)
    if photo is None:
        raise NotFound
    return photo
