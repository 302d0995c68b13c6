"""Share links of an album: make, list, revoke. What a guest can reach with one is decided in `album_access`."""

import orjson
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import album_examples as examples
from lingxi.api import album_schemas as schemas
from lingxi.api import documented as doc
from lingxi.api.album_answers import share_to_wire
from lingxi.api.album_changes import AlbumIdText, ShareIdText, audited_change, own_album
from lingxi.api.answers import json_answer
from lingxi.api.auth import Editor, Viewer
from lingxi.api.changes import Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import id_of, read_json, validated
from lingxi.db.session import Connection
from lingxi.domain.errors import NotFound
from lingxi.services.share_links import create_share_link, list_share_links, revoke_share_link

router = APIRouter(prefix="/api/v1", tags=["Albums"])

SHARE_PAGE = "/s/"
_NEW_SHARE = TypeAdapter(schemas.NewShareLink)


@router.post(
    "/albums/{albumId}/shares",
    **documented(
        summary="Make a share link",
        status=201,
        meaning="Its secret is in this answer, and never again. Whoever has it sees this album's published photos, "
        "and nothing else.",
        answer=schemas.CreatedShareLink,
        example=examples.CREATED_SHARE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body=schemas.NewShareLink,
        body_example={"lifetimeSeconds": None},
    ),
)
async def create(request: Request, caller: Editor, album_id: AlbumIdText) -> Response:
    album = await own_album(request, caller, album_id)
    new = validated(_NEW_SHARE, await read_json(request))

    async def work(connection: Connection) -> Done:
        link, secret = await create_share_link(connection, album.id, lifetime_seconds=new.lifetime_seconds)
        answer = {**share_to_wire(link), "secret": secret, "url": SHARE_PAGE + secret}
        return Done(201, orjson.dumps(answer), f"share:{link.id}")

    return await audited_change(request, caller, "share.create", None, work)


@router.get(
    "/albums/{albumId}/shares",
    **documented(
        summary="List an album's share links, oldest first",
        answer=schemas.ShareLinkList,
        example={"shares": [examples.SHARE]},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def list_(request: Request, caller: Viewer, album_id: AlbumIdText) -> Response:
    album = await own_album(request, caller, album_id)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        links = await list_share_links(connection, album.id)
    return json_answer({"shares": [share_to_wire(link) for link in links]})


@router.delete(
    "/albums/{albumId}/shares/{shareId}",
    **documented(
        summary="Revoke a share link",
        status=204,
        meaning="It opens nothing any more: open streams end, and pictures are 404, within a second. Again is the same.",
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def revoke(request: Request, caller: Editor, album_id: AlbumIdText, share_id: ShareIdText) -> Response:
    album = await own_album(request, caller, album_id)
    link_id = id_of(share_id)

    async def work(connection: Connection) -> Done:
        if await revoke_share_link(connection, album.id, link_id) is None:
            raise NotFound
        return Done(204, b"", f"share:{link_id}")

    response = await audited_change(request, caller, "share.revoke", None, work)
    deps_of(request).albums.doubt_access()
    deps_of(request).hints.publish_access()
    return response
