"""Commands for albums over HTTP: create, list, show, change, delete, their photos, and their share links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli import album_photos
from lingxi.cli.album_lookup import AlbumArgument, album_named
from lingxi.cli.answers import YesOption, duration_seconds, make_sure
from lingxi.cli.exits import usage
from lingxi.cli.options import (
    DEFAULT_DATA_DIR,
    DEFAULT_URL,
    DataDirOption,
    JsonOption,
    TokenOption,
    UrlOption,
)
from lingxi.cli.output import Output
from lingxi.cli.tasks import with_client

if TYPE_CHECKING:
    from lingxi.client import Album, Client, Photo


def register(app: typer.Typer) -> None:
    """Adds the group."""
    album = typer.Typer(no_args_is_help=True, help="Make, show and share albums, and steer their photos.")
    album.command("create")(create)
    album.command("list")(list_)
    album.command("show")(show)
    album.command("rename")(rename)
    album.command("delete")(delete)
    album.command("share")(share)
    album.command("shares")(shares)
    album.command("revoke")(revoke)
    album_photos.register(album)
    app.add_typer(album, name="album")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Up to 200 characters.")],
    originals: Annotated[
        bool,
        typer.Option("--originals", help="Guests with a link may fetch the files as they were uploaded."),
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make an album."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        _tell(client, await client.albums.create(name, originals_shared=originals), output)

    with_client(url, token, data_dir, run)


def list_(
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List all albums, newest first."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        albums = [album async for album in client.albums.all()]
        rows = [(album.id, _counts(album), album.created_at[:19], album.name) for album in albums]
        if rows:
            output.table(("ALBUM", "PHOTOS", "CREATED (UTC)", "NAME"), rows)
        else:
            output.say("No albums.")
        output.result({"albums": [album.raw for album in albums]})

    with_client(url, token, data_dir, run)


def show(
    album: AlbumArgument,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only photos that could not be published.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show an album, its photos, and why some of them failed."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        photos = [photo async for photo in client.albums.photos(found.id) if photo.error or not failed]
        _say(client, found, output)
        if photos:
            output.say()
            rows = [_photo_row(photo) for photo in photos]
            output.table(("PHOTO", "STATE", "SIZE", "TAKEN", "FILE", "ERROR"), rows)
        output.result({"album": found.raw, "photos": [photo.raw for photo in photos]})

    with_client(url, token, data_dir, run)


def rename(
    album: AlbumArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Give an album another name."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        _tell(client, await client.albums.change(found.id, name=name), output)

    with_client(url, token, data_dir, run)


def delete(
    album: AlbumArgument,
    yes: YesOption = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Delete an album with its photos and links, for everybody and for good."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        make_sure(yes, f"Delete {found.name} with {found.counts.get('photos', 0)} photos, for good?")
        await client.albums.delete(found.id)
        output.say(f"{found.name} is deleted.")
        output.result({"albumId": found.id, "deleted": True})

    with_client(url, token, data_dir, run)


# ── share links ──────────────────────────────────────────────────────────────────────────────────────────
def share(
    album: AlbumArgument,
    expires: Annotated[
        str | None, typer.Option(help="How long it is good, as 12h, 7d or 2w; without it, until revoked.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make a link for guests. Its address is told this once."""
    output, lifetime_seconds = Output(as_json), _lifetime(expires)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        link = await client.albums.share(found.id, lifetime_seconds=lifetime_seconds)
        address = f"{client.url}{link.url}"
        output.say(address)
        output.say(f"Whoever has it sees {found.name}, {_until(link.expires_at)}; it is not told again.")
        output.result({**link.raw, "url": address})

    with_client(url, token, data_dir, run)


def shares(
    album: AlbumArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List an album's links, without their addresses."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        links = await client.albums.shares(found.id)
        rows = [
            (link.id, link.created_at[:19], "revoked" if link.revoked_at else _until(link.expires_at))
            for link in links
        ]
        if rows:
            output.table(("LINK", "MADE (UTC)", "GOOD"), rows)
        else:
            output.say("No links.")
        output.result({"shares": [link.raw for link in links]})

    with_client(url, token, data_dir, run)


def revoke(
    album: AlbumArgument,
    link: Annotated[str, typer.Argument(metavar="LINK", help="The link's id, from `album shares`.")],
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """End a link: guests who hold it see nothing more, open pages included."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        await client.albums.revoke(found.id, link)
        output.say("The link is revoked.")
        output.result({"albumId": found.id, "shareId": link, "revoked": True})

    with_client(url, token, data_dir, run)


# ── shared ───────────────────────────────────────────────────────────────────────────────────────────────
def _lifetime(text: str | None) -> int | None:
    if text is None:
        return None
    if (seconds := duration_seconds(text.strip(), "mhdw")) is None:
        raise usage("--expires is a number with m, h, d or w, as 12h or 7d")
    return seconds


def _until(expires_at: str | None) -> str:
    return f"until {expires_at[:16].replace('T', ' ')} UTC" if expires_at else "until it is revoked"


def _tell(client: Client, album: Album, output: Output) -> None:
    _say(client, album, output)
    output.result({**album.raw, "albumUrl": _address(client, album)})


def _say(client: Client, album: Album, output: Output) -> None:
    output.say(f"album {album.id}: {album.name}")
    output.say(f"  {_counts(album)}; {_address(client, album)}")


def _address(client: Client, album: Album) -> str:
    return f"{client.url}/albums/{album.id}"


def _counts(album: Album) -> str:
    counts = album.counts
    if not counts.get("photos"):
        return "no photo yet"
    parts = [f"{counts.get('published', 0)} of {counts.get('photos', 0)} published"]
    parts += [f"{counts[name]} {name}" for name in ("processing", "failed") if counts.get(name)]
    return ", ".join(parts)


def _photo_row(photo: Photo) -> tuple[str, ...]:
    state: Any = photo.visibility if photo.processing_state == "ready" else photo.processing_state
    size = f"{photo.width} x {photo.height}" if photo.width else ""
    error = f"{photo.error[0]}: {photo.error[1]}" if photo.error else ""
    taken = (photo.captured_at or "")[:19].replace("T", " ")
    return (f"#{photo.upload_number}", str(state), size, taken, photo.file_name or "", error)
