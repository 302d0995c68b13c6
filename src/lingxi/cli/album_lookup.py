"""How commands find the album that is meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli.exits import usage

if TYPE_CHECKING:
    from lingxi.client import Album, Client

AlbumArgument = Annotated[
    str, typer.Argument(metavar="ALBUM", help="The album's name or id.", show_default=False)
]
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


async def find_album(client: Client, name: str) -> Album | None:
    """By its id, or by a name that only one has; None when no album has this name."""
    if _ID.fullmatch(name):
        return await client.albums.get(name)
    found = await client.albums.find(name)
    if len(found) > 1:
        ids = ", ".join(album.id for album in found)
        raise usage(f"{len(found)} albums are named {name}; say which by its id: {ids}")
    return found[0] if found else None


async def album_named(client: Client, name: str) -> Album:
    """The album; CommandError when there is none."""
    found = await find_album(client, name)
    if found is None:
        raise usage(f"No album is named {name}")
    return found
