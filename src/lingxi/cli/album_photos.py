"""Commands for the photos of an album: hide, unhide, recall, reprocess, duplicates, export, stats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli.album_lookup import AlbumArgument, album_named
from lingxi.cli.answers import YesOption, make_sure
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
from lingxi.cli.tasks import follow_task, with_client

if TYPE_CHECKING:
    from lingxi.client import Album, Client, Photo
    from lingxi.client.model import Json

PhotosArgument = Annotated[
    list[str],
    typer.Argument(metavar="PHOTO…", help="Photos by number, id or file name.", show_default=False),
]


def register(album: typer.Typer) -> None:
    """Adds the commands to the group."""
    album.command("hide")(hide)
    album.command("unhide")(unhide)
    album.command("recall")(recall)
    album.command("reprocess")(reprocess)
    album.command("duplicates")(duplicates)
    album.command("export")(export)
    album.command("stats")(stats)


def hide(
    album: AlbumArgument,
    photos: PhotosArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Hide photos from guests, until they are unhidden."""
    _steer("hide", album, photos, url, token, data_dir, Output(as_json))


def unhide(
    album: AlbumArgument,
    photos: PhotosArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show hidden photos again."""
    _steer("show", album, photos, url, token, data_dir, Output(as_json))


def recall(
    album: AlbumArgument,
    photos: PhotosArgument,
    yes: YesOption = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Take photos back for good: guests see them no more, and their pictures are removed."""
    make_sure(yes, f"Recall {len(photos)} photo{'s' * (len(photos) != 1)}? That cannot be undone.")
    _steer("recall", album, photos, url, token, data_dir, Output(as_json))


def reprocess(
    album: AlbumArgument,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Then follow the tasks to their end.")] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make the pictures of all photos anew, as one or more tasks. Guests see the old ones until then."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        tasks = await client.albums.reprocess((await album_named(client, album)).id)
        for task in tasks:
            output.say(f"task {task.id}: {task.counts.total} photos")
        if watch:
            for task in tasks:
                await follow_task(client, task.id, output, None)
        output.result({"tasks": [task.raw for task in tasks]})

    with_client(url, token, data_dir, run)


def duplicates(
    album: AlbumArgument,
    refresh: Annotated[
        bool, typer.Option("--refresh", "-r", help="First look at photos that were not looked at yet.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List photos that look alike, in groups, the best one first."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        tasks = await client.albums.fingerprint(found.id) if refresh else []
        for task in tasks:
            await follow_task(client, task.id, output, None)
        groups = [group async for group in client.albums.duplicates(found.id)]
        for number, group in enumerate(groups):
            if number:
                output.say()
            output.say(f"{group['kind']} of {group['count']}")
            output.table(("", "PHOTO", "SIZE", "BYTES", "SHARPNESS", "FILE"), _alike_rows(group))
        if not groups:
            output.say("No photos look alike, of those that were looked at.")
        output.result({"albumId": found.id, "groups": groups})

    with_client(url, token, data_dir, run)


def export(
    album: AlbumArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made when it is missing.")],
    browse: Annotated[
        bool,
        typer.Option("--browse", help="The pictures that guests see, not the files as they were uploaded."),
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Download an album's photos into a folder. Run again after an interruption: it goes on where it stopped."""
    from lingxi.cli.album_export import Export

    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await album_named(client, album)
        work = Export(client, folder, browse=browse)
        await work.run(found, output)
        output.say(f"{work.written} photos written to {folder}, {work.there} were there.")
        output.result({"albumId": found.id, "written": work.written, "there": work.there})

    with_client(url, token, data_dir, run)


def stats(
    album: AlbumArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Say how long an album's photos took, stage by stage."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        answer = await client.albums.stats((await album_named(client, album)).id)
        rows = [
            (one["stage"], str(one["count"]), *(f"{one[key]:.1f}" for key in ("p50Ms", "p95Ms", "maxMs")))
            for one in answer["stages"]
        ]
        if rows:
            output.table(("STAGE", "PHOTOS", "P50 MS", "P95 MS", "MAX MS"), rows)
        else:
            output.say("No photo was published yet.")
        output.result(answer)

    with_client(url, token, data_dir, run)


# ── shared ─────────────────────────────────────────────────────────────────────────────────────────────
def _alike_rows(group: Json) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, one in enumerate(group["photos"]):
        photo = one["photo"]
        size = f"{photo['width']} x {photo['height']}"
        sharpness = f"{one['sharpness']:.0f}"
        name = photo["fileName"] or ""
        best = "" if number else "best"
        rows.append((best, f"#{photo['uploadNumber']}", size, str(photo["sizeBytes"]), sharpness, name))
    return rows


def _steer(
    verb: str, album: str, wanted: list[str], url: str, token: str | None, data_dir: Path, output: Output
) -> None:
    async def run(client: Client) -> None:
        found = await album_named(client, album)
        photos = await _photos(client, found, wanted)
        changed = [await getattr(client.albums, verb)(found.id, photo.id) for photo in photos]
        for photo in changed:
            output.say(f"#{photo.upload_number} {photo.file_name}: {photo.visibility}")
        output.result({"photos": [photo.raw for photo in changed]})

    with_client(url, token, data_dir, run)


async def _photos(client: Client, album: Album, wanted: list[str]) -> list[Photo]:
    """By upload number, id or file name; CommandError for one that is not there or not clear, before any is changed."""
    every = [photo async for photo in client.albums.photos(album.id)]
    chosen = []
    for text in wanted:
        number = int(text.removeprefix("#")) if text.removeprefix("#").isdecimal() else None
        found = [photo for photo in every if photo.upload_number == number or photo.id == text.lower()]
        found = found or [photo for photo in every if photo.file_name == text]
        if len(found) != 1:
            how_many = "No photo" if not found else f"{len(found)} photos"
            raise usage(f"{how_many} of {album.name} can be meant by {text}: give its number or id")
        chosen += found
    return chosen
