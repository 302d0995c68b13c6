"""From albums and photos to HTML. Every value from outside passes `escape`.

The first photos are markup, so that the page is one without scripts too, and JSON in an attribute, from which the script
goes on; the rest is read by GET.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from uuid import UUID

import orjson

from lingxi.domain.photos import Album, Photo, photo_to_wire
from lingxi.web.assets import fragment, template
from lingxi.web.render import ALBUM_STYLES, GUEST, page

FOOT = "<footer>Shared with Lingxi</footer>"
_NO_PHOTO_YET = "There are no photos in this album yet."


def albums_page(
    albums: Sequence[Album],
    counts: Mapping[UUID, Mapping[str, int]],
    faces: Mapping[UUID, str],
    *,
    may_create: bool,
    older: str | None,
) -> str:
    """The albums of a workspace, newest first; `faces` are addresses of pictures."""
    rows = "".join(_album_card(album, counts[album.id], faces.get(album.id)) for album in albums)
    empty = (
        ""
        if albums
        else '<p class="nothing">No albums yet. Give the first one a name, and drop photos into it.</p>'
    )
    body = template("albums").substitute(
        rows=rows,
        empty=empty,
        older=f'<a rel="next" href="{escape(older)}">Older albums</a>' if older else "",
        form=fragment("album_form.html") if may_create else "",
    )
    script = "albums.js" if may_create else ""
    return page("Albums", body, signed_in=True, styles=ALBUM_STYLES, script=script, body_class="album-page")


def album_page(
    album: Album, counts: Mapping[str, int], photos: Sequence[Photo], *, more: bool, may_steer: bool
) -> str:
    """An album as its photographer sees it."""
    body = template("album").substitute(
        _first_photos(album, photos, more=more, member=True),
        steers="true" if may_steer else "false",
        count=f"{_photos(counts['published'])} published",
        toolbar=template("album_toolbar").substitute(id=album.id) if may_steer else "",
        uploads=fragment("album_uploads.html") if may_steer else "",
        dialogs=template("album_dialogs").substitute(originals=" checked" if album.originals_shared else "")
        if may_steer
        else "",
        empty="" if may_steer else _NO_PHOTO_YET,
        large=template("large").substitute(side=fragment("album_side.html")),
    )
    return page(
        album.name, body, signed_in=True, styles=ALBUM_STYLES, script="album.js", body_class="album-page"
    )


def share_page(album: Album, photos: Sequence[Photo], *, published: int, more: bool, member: bool) -> str:
    """An album as its guests see it. `member`: whoever looks is of the workspace; the page shows no more for that."""
    body = template("share").substitute(
        _first_photos(album, photos, more=more, member=False),
        access="member" if member else "share",
        originals="true" if album.originals_shared else "false",
        count=_photos(published),
        camera=fragment("camera.svg"),
        large=template("large").substitute(side=""),
    )
    return page(
        album.name,
        body,
        signed_in=False,
        styles=ALBUM_STYLES,
        script="share.js",
        body_class=GUEST,
        foot=FOOT,
    )


def _first_photos(album: Album, photos: Sequence[Photo], *, more: bool, member: bool) -> dict[str, object]:
    """What both pages say of an album and its first photos; `more`: there are photos after these."""
    wire = [photo_to_wire(photo, member=member) for photo in photos]
    return {
        "id": album.id,
        "name": escape(album.name),
        "cursor": album.cursor,
        "photos": escape(orjson.dumps(wire).decode()),
        "next": "more" if more else "",
        "tiles": "".join(_tile(photo) for photo in wire),
        "empty_hidden": " hidden" if photos else "",
    }


def _tile(photo: Mapping[str, Any]) -> str:
    """A tile that works without scripts, too; `photo` as it is on the wire."""
    variants = {one["kind"]: one for one in photo["variants"]}
    if not {"thumb", "browse"} <= variants.keys():
        return ""
    thumb, browse = variants["thumb"], variants["browse"]
    name = photo.get("fileName", f"Photo {photo['uploadNumber']}")
    return (
        f'<li class="tile"><a href="{escape(browse["url"])}"><img src="{escape(thumb["url"])}" alt="{escape(name)}" '
        f'loading="lazy" width="{thumb["width"]}" height="{thumb["height"]}"></a></li>'
    )


def _album_card(album: Album, counts: Mapping[str, int], face: str | None) -> str:
    picture = f'<img src="{escape(face)}" alt="" loading="lazy">' if face else fragment("camera.svg")
    said = [f"{_photos(counts['published'])} published"]
    if counts["processing"]:
        said.append(f"{counts['processing']:,} on the way")
    if counts["failed"]:
        said.append(f"{counts['failed']:,} could not be published")
    return (
        f'<li><a href="/albums/{album.id}"><span class="face">{picture}</span><span class="text">'
        f"<strong>{escape(album.name)}</strong>"
        f'<small><time datetime="{album.created_at:%Y-%m-%d}">{album.created_at:%-d %B %Y}</time> · {" · ".join(said)}</small>'
        "</span></a></li>"
    )


def _photos(count: int) -> str:
    return f"{count:,} photo" if count == 1 else f"{count:,} photos"
