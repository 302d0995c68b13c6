"""Published pictures, checked from memory and streamed from storage; and what members see of photos that are not published."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api.album_changes import AlbumIdText, PhotoIdText, own_album
from lingxi.api.auth import Viewer
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import id_of
from lingxi.api.remembered_access import visible_variant
from lingxi.api.stored_bytes import UNREADABLE, Stored, Unsatisfiable, serve
from lingxi.domain.errors import NotFound
from lingxi.services.read_photos import get_photo

router = APIRouter(prefix="/api/v1", tags=["Albums"])

FileName = Annotated[str, Path(alias="fileName", description="As the photo's variants name it.")]
_PATH = "/albums/{albumId}/photos/{photoId}/variants/{fileName}"
_PREVIEW_PATH = "/albums/{albumId}/photos/{photoId}/previews/{fileName}"
_FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable", "Content-Security-Policy": "sandbox"}
_FOR_NOW = {"Cache-Control": "private, no-cache", "Content-Security-Policy": "sandbox"}
_PICTURE = {"image/jpeg": {"schema": {"type": "string", "contentMediaType": "image/jpeg"}}}

_VARIANT = documented(
    summary="Get a published picture",
    meaning="It may be kept for ever: its address changes with its content. 404 within a second of hide, recall, "
    "delete or revoke.",
    content=_PICTURE,
    headers=doc.BYTES_HEADERS,
    also=doc.parts(_PICTURE),
    shared=True,
    errors=(*doc.SHARED, doc.NOT_FOUND, Unsatisfiable(21_480), UNREADABLE),
)


@router.get(_PATH, **_VARIANT)
async def variant(
    request: Request, album_id: AlbumIdText, photo_id: PhotoIdText, file_name: FileName
) -> Response:
    found = await visible_variant(request, album_id, photo_id, file_name)
    stored = Stored(found.storage_key, found.size_bytes, found.sha256, found.content_type)
    return await serve(request, deps_of(request).storage, stored, _FOR_EVER)


router.head(_PATH, **{**_VARIANT, "summary": "Get the headers of a published picture"})(variant)


@router.get(
    _PREVIEW_PATH,
    **documented(
        summary="Get a picture of a photo that is not published",
        meaning="For members of the workspace; hidden photos are seen here. Asked anew each time.",
        content=_PICTURE,
        headers=doc.BYTES_HEADERS,
        also=doc.parts(_PICTURE),
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, Unsatisfiable(21_480), UNREADABLE),
    ),
)
async def preview(
    request: Request, caller: Viewer, album_id: AlbumIdText, photo_id: PhotoIdText, file_name: FileName
) -> Response:
    album = await own_album(request, caller, album_id)
    wanted = id_of(photo_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        photo = await get_photo(connection, album.id, wanted)
    for found in () if photo is None else photo.variants:
        if found.file_name == file_name:
            stored = Stored(found.storage_key, found.size_bytes, found.sha256, found.content_type)
            return await serve(request, deps_of(request).storage, stored, _FOR_NOW)
    raise NotFound
