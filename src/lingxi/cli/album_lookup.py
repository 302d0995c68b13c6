"""How commands find the album that is meant, and make sure that what cannot be undone is meant too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli.exits import CommandError, Exit, usage

if TYPE_CHECKING:
    from lingxi.client import Album, Client

AlbumArgument = Annotated[
    str, typer.Argument(metavar="ALBUM", help="The album's name or id.", show_default=False)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without being asked again.")]
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


def make_sure(yes: bool, question: str) -> None:
    """Asks on the terminal unless it was said already; the command ends when the answer is no."""
    try:
        sure = yes or typer.confirm(question, err=True)
    except typer.Abort:  # nobody is there to answer
        sure = False
    if not sure:
        raise CommandError("Nothing was done; with --yes it is done without asking", Exit.NOT_SUCCEEDED)
