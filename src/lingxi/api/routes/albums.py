"""Albums: create, list, show, change, delete, reprocess, and how long their photos took."""

from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import album_examples as examples
from lingxi.api import album_schemas as schemas
from lingxi.api import documented as doc
from lingxi.api.album_access import album_access
from lingxi.api.album_answers import stats_to_wire
from lingxi.api.album_changes import AlbumIdText, audited_change, own_album
from lingxi.api.answers import json_answer
from lingxi.api.auth import Editor, Viewer
from lingxi.api.changes import Done, idempotency_key
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.json_body import canonical_digest
from lingxi.api.paging import DEFAULT_LIMIT, Cursors, CursorText, Limit
from lingxi.api.reading import nothing_with_key, read_json, refuse_unknown_query, validated
from lingxi.api.signing import Signer
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, LingxiError, SchemaError
from lingxi.domain.photos import Album, album_to_wire
from lingxi.domain.wire import task_to_wire
from lingxi.services.album_stats import album_stats
from lingxi.services.albums import (
    change_album,
    count_photos,
    create_album,
    delete_album,
    get_album,
    list_albums,
)
from lingxi.services.request_reprocess import request_reprocess

router = APIRouter(prefix="/api/v1", tags=["Albums"])

NOTHING_READY = Conflict("No photo of this album is ready.")
_NEW_ALBUM = TypeAdapter(schemas.NewAlbum)
_CHANGE = TypeAdapter(schemas.AlbumChange)
_NO_COUNTS = {"photos": 0, "published": 0, "failed": 0, "processing": 0}


@router.post(
    "/albums",
    **documented(
        summary="Create an album",
        status=201,
        meaning="It is there, and empty.",
        answer=schemas.Album,
        example={**examples.ALBUM, "cursor": 1, "counts": _NO_COUNTS},
        headers={**doc.LOCATION_HEADER, **doc.REPLAYED_HEADER},
        errors=(*doc.AUTHENTICATED, *doc.WITH_BODY, *doc.WITH_KEY),
        body=schemas.NewAlbum,
        body_example={"name": "Wedding of Lin and Ada", "originalsShared": False},
        parameters=[doc.KEY_PARAMETER],
    ),
)
async def create(request: Request, caller: Editor) -> Response:
    key = idempotency_key(request)
    document = await read_json(request)
    new, refusal = _checked(_NEW_ALBUM, document)

    async def work(connection: Connection) -> Done:
        album = await create_album(
            connection, caller.workspace_id, new.name, originals_shared=new.originals_shared
        )
        location = {"Location": f"/api/v1/albums/{album.id}"}
        return Done(201, _body(album, _NO_COUNTS), f"album:{album.id}", location)

    digest = canonical_digest(document)
    return await audited_change(
        request, caller, "album.create", None, work, key=key, digest=digest, refusal=refusal
    )


@router.get(
    "/albums",
    **documented(
        summary="List albums, newest first",
        answer=schemas.AlbumPage,
        example={"albums": [examples.ALBUM], "nextCursor": None},
        errors=(*doc.AUTHENTICATED, doc.BAD_CURSOR, doc.BAD_QUERY),
    ),
)
async def list_(
    request: Request, caller: Viewer, limit: Limit = DEFAULT_LIMIT, cursor: CursorText = None
) -> Response:
    refuse_unknown_query(request, ("limit", "cursor"))
    deps = deps_of(request)
    cursors = Cursors(Signer(deps.config.secret_keys), caller.workspace_id, "albums", ())
    after: tuple[datetime, UUID] | None = None
    if cursor is not None:
        at, album_id = cursors.open(cursor)
        after = (datetime.fromisoformat(at), UUID(album_id))
    async with deps.pool.acquire(timeout=5) as connection:
        found = await list_albums(connection, caller.workspace_id, after=after, limit=limit + 1)
        page = found[:limit]
        counts = await count_photos(connection, [album.id for album in page])
    last = page[-1] if len(found) > limit else None
    return json_answer(
        {
            "albums": [album_to_wire(album, counts[album.id], member=True) for album in page],
            "nextCursor": None if last is None else cursors.seal([last.created_at.isoformat(), str(last.id)]),
        }
    )


@router.get(
    "/albums/{albumId}",
    **documented(
        summary="Show an album",
        meaning="As asked. A share link is told how many photos are published, and no other count.",
        answer=schemas.Album,
        example=examples.ALBUM,
        shared=True,
        errors=(*doc.SHARED, doc.NOT_FOUND),
    ),
)
async def show(request: Request, album_id: AlbumIdText) -> Response:
    access = await album_access(request, album_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        album = await get_album(connection, access.workspace_id, access.album_id)
        counts = await count_photos(connection, [album.id])
    return json_answer(album_to_wire(album, counts[album.id], member=access.member))


@router.patch(
    "/albums/{albumId}",
    **documented(
        summary="Rename an album, or say whether its share links may fetch originals",
        meaning="The album as it is now. What is not named, or null, stays as it is.",
        answer=schemas.Album,
        example=examples.ALBUM,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body=schemas.AlbumChange,
        body_example={"name": "Wedding of Lin and Ada", "originalsShared": True},
    ),
)
async def change(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    found = await own_album(request, caller, album_id)
    asked = validated(_CHANGE, await read_json(request))
    if asked.name is None and asked.originals_shared is None:
        return await show(request, album_id)

    async def work(connection: Connection) -> Done:
        album = await change_album(
            connection,
            caller.workspace_id,
            found.id,
            name=asked.name,
            originals_shared=asked.originals_shared,
        )
        counts = await count_photos(connection, [album.id])
        return Done(200, _body(album, counts[album.id]), f"album:{album.id}")

    return await audited_change(request, caller, "album.change", found.id, work)


@router.delete(
    "/albums/{albumId}",
    **documented(
        summary="Delete an album with its photos",
        status=204,
        meaning="It is gone for everybody, with its share links and streams; its files are removed within a day.",
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def delete(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    found = await own_album(request, caller, album_id)

    async def work(connection: Connection) -> Done:
        await delete_album(connection, caller.workspace_id, found.id)
        return Done(204, b"", f"album:{found.id}")

    response = await audited_change(request, caller, "album.delete", found.id, work)
    deps_of(request).albums.doubt_access()
    deps_of(request).hints.publish_access()  # streams of its guests end now
    return response


@router.post(
    "/albums/{albumId}/reprocess",
    **documented(
        summary="Make the pictures of all its photos anew",
        status=202,
        meaning="Accepted. Photos stay as they are until their new pictures are there; new uploads go first.",
        answer=schemas.Reprocess,
        example=examples.REPROCESS,
        headers=doc.REPLAYED_HEADER,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, *doc.WITH_KEY, NOTHING_READY),
        body_content=doc.EMPTY_BODY,
        body_required=False,
        parameters=[doc.KEY_PARAMETER],
    ),
)
async def reprocess(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    found = await own_album(request, caller, album_id)
    key = idempotency_key(request)
    digest, refusal = await nothing_with_key(request)

    async def work(connection: Connection) -> Done:
        tasks = await request_reprocess(connection, caller.workspace_id, found.id)
        answer = {"tasks": [task_to_wire(task) for task in tasks]}
        return Done(202, orjson.dumps(answer), f"album:{found.id}")

    return await audited_change(
        request, caller, "album.reprocess", found.id, work, key=key, digest=digest, refusal=refusal
    )


@router.get(
    "/albums/{albumId}/stats",
    **documented(
        summary="How long its photos took, by stage",
        meaning="Milliseconds since the stage before, over all photos that passed both.",
        answer=schemas.AlbumStats,
        example=examples.STATS,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def stats(request: Request, caller: Viewer, album_id: AlbumIdText) -> Response:
    found = await own_album(request, caller, album_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        return json_answer(stats_to_wire(found.id, await album_stats(connection, found.id)))


def _body(album: Album, counts: dict[str, int]) -> bytes:
    return orjson.dumps(album_to_wire(album, counts, member=True))


def _checked(
    adapter: TypeAdapter[schemas.NewAlbum], document: Any
) -> tuple[schemas.NewAlbum, LingxiError | None]:
    """The album that is asked for, or what is wrong with it; a key that was used is looked at first."""
    try:
        return validated(adapter, document), None
    except SchemaError as error:
        return schemas.NewAlbum(name="-"), error
