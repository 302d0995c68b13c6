"""Photos of an album that look alike: ask for their fingerprints, and list the groups."""

import base64
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import album_examples as examples
from lingxi.api import album_schemas as schemas
from lingxi.api import documented as doc
from lingxi.api.album_changes import AlbumIdText, audited_change, own_album
from lingxi.api.answers import json_answer
from lingxi.api.auth import Editor, Viewer
from lingxi.api.changes import Done, idempotency_key
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.paging import DEFAULT_LIMIT, Cursors, CursorText, Limit
from lingxi.api.reading import nothing_with_key, refuse_unknown_query
from lingxi.api.signing import Signer
from lingxi.db.session import Connection
from lingxi.domain.duplicates import Group
from lingxi.domain.photos import Photo, photo_to_wire
from lingxi.domain.wire import task_to_wire
from lingxi.services.list_duplicates import list_duplicates, photos_by_id
from lingxi.services.request_fingerprints import request_fingerprints

router = APIRouter(prefix="/api/v1", tags=["Albums"])

MAX_PHOTOS_SHOWN = 100  # of a group


@router.get(
    "/albums/{albumId}/duplicates",
    **documented(
        summary="List groups of photos that look alike",
        meaning="Of the photos that have a fingerprint: near-duplicates and bursts, in the order of each group's first upload, "
        "the best photo of a group first. Members only.",
        answer=schemas.DuplicatesPage,
        example=examples.DUPLICATES,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, doc.BAD_CURSOR, doc.BAD_QUERY),
    ),
)
async def duplicates(
    request: Request,
    caller: Viewer,
    album_id: AlbumIdText,
    limit: Limit = DEFAULT_LIMIT,
    cursor: CursorText = None,
) -> Response:
    refuse_unknown_query(request, ("limit", "cursor"))
    found = await own_album(request, caller, album_id)
    deps = deps_of(request)
    route = f"albums/{found.id}/duplicates"
    cursors = Cursors(Signer(deps.config.secret_keys), caller.workspace_id, route, ())
    after = (0, "")
    if cursor is not None:
        upload_number, kind = cursors.open(cursor)
        after = (upload_number, kind)
    async with deps.pool.acquire(timeout=5) as connection:
        listed = await list_duplicates(connection, found.id)
        rest = [group for group in listed.groups if group.place > after]
        page = rest[:limit]
        shown = [face.photo_id for group in page for face in group.faces[:MAX_PHOTOS_SHOWN]]
        photos = await photos_by_id(connection, found.id, shown)
    return json_answer(
        {
            "groups": [_group_to_wire(group, photos) for group in page],
            "photos": listed.photos,
            "fingerprinted": listed.fingerprinted,
            "nextCursor": cursors.seal(page[-1].place) if len(rest) > limit else None,
        }
    )


@router.post(
    "/albums/{albumId}/fingerprint",
    **documented(
        summary="Take the fingerprints that its photos do not have yet",
        status=202,
        meaning="Accepted. There is no task when every ready photo has one of its latest pictures.",
        answer=schemas.FingerprintTasks,
        example=examples.FINGERPRINT,
        headers=doc.REPLAYED_HEADER,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, *doc.WITH_KEY),
        body_content=doc.EMPTY_BODY,
        body_required=False,
        parameters=[doc.KEY_PARAMETER],
    ),
)
async def fingerprint(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    found = await own_album(request, caller, album_id)
    key = idempotency_key(request)
    digest, refusal = await nothing_with_key(request)

    async def work(connection: Connection) -> Done:
        tasks = await request_fingerprints(connection, caller.workspace_id, found.id)
        answer = {"tasks": [task_to_wire(task) for task in tasks]}
        return Done(202, orjson.dumps(answer), f"album:{found.id}")

    return await audited_change(
        request, caller, "album.fingerprint", None, work, key=key, digest=digest, refusal=refusal
    )


def _group_to_wire(group: Group, photos: dict[Any, Photo]) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "count": len(group.faces),
        "photos": [
            {
                "photo": photo_to_wire(photos[face.photo_id], member=True),
                "sharpness": round(face.sharpness, 2),
                "thumbHash": base64.b64encode(face.thumb_hash).decode(),
            }
            for face in group.faces[:MAX_PHOTOS_SHOWN]
            if face.photo_id in photos
        ],
    }
