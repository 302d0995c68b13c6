"""`lingxi publish DIR --album NAME`: a folder's photos into an album, and with --watch whatever a camera adds to it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli.album_lookup import find_album
from lingxi.cli.exits import Exit, not_possible, usage
from lingxi.cli.interrupts import Interrupted, Interrupts
from lingxi.cli.options import (
    DEFAULT_DATA_DIR,
    DEFAULT_URL,
    DataDirOption,
    JsonOption,
    TokenOption,
    UrlOption,
)
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.cli.photo_files import Found
    from lingxi.cli.publish_view import PublishView
    from lingxi.cli.publishing import Publishing
    from lingxi.client import Client

LOOK_SECONDS = 0.5  # between two looks at a folder that is watched
_SILENCE = (
    "lingxi: The photos are there, but nothing was published for a while; does a worker run for `photo`?"
)
_RAW = "A camera's RAW file cannot be shown; export it as JPEG and publish that."


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("publish")(publish)


def publish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the photos.")],
    album: Annotated[
        str, typer.Option("--album", "-a", help="The album's name or id; a name that is new makes an album.")
    ],
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on, and take each file that is added, until Ctrl-C.")
    ] = False,
    patience: Annotated[
        float, typer.Option(min=0, help="Give up after so many seconds without a server; never with --watch.")
    ] = 60.0,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Publish a folder's photos in an album.

    Run it again after an interruption: what is in the album is not sent twice. Exits 0 only if every photo was published. With
    --json each file's outcome is a line, and the last line sums them up."""
    from lingxi.cli.connection import connect

    if not folder.is_dir():
        raise usage(f"{folder} is no folder")
    output = Output(as_json)

    async def main(interrupts: Interrupts) -> Exit:
        async with connect(url, token, data_dir) as client:
            work = _publish(
                client, folder, album, output, interrupts if watch else None, None if watch else patience
            )
            return await (work if watch else interrupts.unless_asked(work))

    with Interrupts() as interrupts:
        try:
            exit_code = asyncio.run(main(interrupts))
        except Interrupted:
            output.complain("lingxi: Interrupted; the same command goes on where it stopped")
            raise typer.Exit(Exit.INTERRUPTED) from None
    raise typer.Exit(exit_code)


async def _publish(
    client: Client,
    folder: Path,
    name: str,
    output: Output,
    watch: Interrupts | None,
    patience_seconds: float | None,
) -> Exit:
    from lingxi.cli.publish_view import PublishView
    from lingxi.cli.publishing import Publishing

    found = await find_album(client, name)
    album = found or await client.albums.create(name)
    address = f"{client.url}/albums/{album.id}"
    output.say(f"{'album' if found else 'new album'} {album.name}: {address}")
    publishing = Publishing(client, album, lambda outcome: view.changed(outcome), patience_seconds)
    view = PublishView(output, publishing.outcomes, tell_each=watch is not None)
    await publishing.learn()
    with view:
        await _beside(
            publishing.follow(),
            _all_of_it(publishing, folder, output)
            if watch is None
            else _while_it_fills(publishing, folder, watch, output),
        )
    return _sum_up(publishing, view, output, address)


async def _beside(follow: Any, work: Any) -> None:
    """`work` to its end beside `follow`, whose failure ends both."""
    following, working = asyncio.ensure_future(follow), asyncio.ensure_future(work)
    try:
        await asyncio.wait({following, working}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()
        await working
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        for task in (following, working):
            task.cancel()
        await asyncio.gather(following, working, return_exceptions=True)


async def _all_of_it(publishing: Publishing, folder: Path, output: Output) -> None:
    found = _look(folder)
    _leave_out(publishing, found, set())
    if found.others:
        kinds = sorted({path.suffix.lower() or path.name for path in found.others})
        output.say(
            f"left alone, as no photos: {len(found.others)} file{'s' if len(found.others) > 1 else ''} ({', '.join(kinds[:8])})"
        )
    await publishing.send(found.photos)
    await publishing.until_settled(lambda: output.complain(_SILENCE))


async def _while_it_fills(
    publishing: Publishing, folder: Path, interrupts: Interrupts, output: Output
) -> None:
    """Each file once it has stopped growing, until the end is asked for; what is on its way is then waited for, unless it
    is asked for again."""
    from lingxi.cli.photo_files import Settling

    settling, left_out = Settling(), set[Path]()
    sending: set[asyncio.Task[None]] = set()
    while not interrupts.asked:
        found = await asyncio.to_thread(_look, folder)
        _leave_out(publishing, found, left_out)
        if ready := settling.settled(found.photos, time.monotonic()):
            sending.add(asyncio.create_task(publishing.send(ready)))
        for task in [task for task in sending if task.done()]:
            sending.remove(task)
            task.result()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await interrupts.wait()
        except TimeoutError:
            continue

    async def rest() -> None:
        await asyncio.gather(*sending)
        await publishing.until_settled(lambda: output.complain(_SILENCE))

    finishing = asyncio.ensure_future(rest())
    while not finishing.done() and not interrupts.hurry:
        await asyncio.wait({finishing}, timeout=0.1)
    if not finishing.done():
        finishing.cancel()
        raise Interrupted
    finishing.result()


def _look(folder: Path) -> Found:
    from lingxi.cli.photo_files import find_photos

    try:
        return find_photos(folder)
    except OSError as error:
        raise not_possible(f"{error.filename or folder} cannot be read: {error.strerror}") from None


def _leave_out(publishing: Publishing, found: Found, told: set[Path]) -> None:
    """RAW files: one beside a photo is left alone without ado, one by itself is a photo that is missing."""
    from lingxi.cli.publishing import Became

    for paths, became in ((found.beside_a_photo, Became.SKIPPED), (found.raw_only, Became.REFUSED)):
        for path in paths:
            if path not in told:
                told.add(path)
                publishing.leave_out(path, became, "unsupported_type", _RAW)


def _sum_up(publishing: Publishing, view: PublishView, output: Output, address: str) -> Exit:
    from lingxi.cli.publishing import Became

    count = Counter(outcome.became for outcome in publishing.outcomes)
    output.say(view.in_words() if publishing.outcomes else "There are no photos in this folder.")
    output.result(
        {
            "albumId": publishing.album.id,
            "albumUrl": address,
            "published": count[Became.PUBLISHED],
            "there": count[Became.THERE],
            "refused": count[Became.REFUSED],
            "failed": count[Became.FAILED],
            "skipped": count[Became.SKIPPED],
        }
    )
    return Exit.NOT_SUCCEEDED if count[Became.REFUSED] or count[Became.FAILED] else Exit.OK
