"""`lingxi verify-archive`: is this ZIP, to its last byte, the one that was signed? `lingxi archive-keys`: who signs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli.connection import connect
from lingxi.cli.exits import Exit, not_possible, usage
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
    from lingxi.processors.archive_check import Checked
    from lingxi.processors.archive_receipt import PublicKey

SHOWN = 50


def register(app: typer.Typer) -> None:
    app.command("verify-archive")(verify_archive)
    app.command("archive-keys")(archive_keys)


def verify_archive(
    file: Annotated[Path, typer.Argument(help="The ZIP that export:archive made.")],
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Public key of who has to have made it, or a file with it: what `lingxi archive-keys` shows.",
        ),
    ] = None,
    any_key: Annotated[
        bool, typer.Option("--any-key", help="Whoever made it: only see that nothing was changed since.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read every byte of an archive, and tell what was changed, added or removed since it was signed. Works offline."""
    if (key is None) != any_key:
        raise usage("say whose archive it has to be with --key KEY, or --any-key")
    from lingxi.processors.archive_check import check_archive

    wanted = None if key is None else _key(key)
    output = Output(as_json)
    try:
        with file.open("rb") as opened:
            checked = check_archive(opened, wanted)
    except OSError as error:
        raise not_possible(f"{file}: {error.strerror}") from None
    _tell(output, file, checked, known=wanted is not None)
    if checked.problems:
        raise typer.Exit(Exit.NOT_SUCCEEDED)


def archive_keys(
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show the public keys of the receipts in archives; the first signs now."""

    async def ask() -> Sequence[dict[str, Any]]:
        async with connect(url, token, data_dir) as client:
            return await client.archive_keys()

    keys = asyncio.run(ask())
    output = Output(as_json)
    for key in keys:
        output.say(key["publicKey"])
    output.result({"keys": keys})


def _key(text: str) -> PublicKey:
    from lingxi.processors.archive_receipt import PublicKey, ReceiptError

    try:
        return PublicKey.parse(text)
    except ReceiptError as error:
        try:
            return PublicKey.parse(Path(text).read_text("utf-8"))
        except (OSError, ValueError):
            raise usage(f"--key: {error}") from None


def _tell(output: Output, file: Path, checked: Checked, *, known: bool) -> None:
    for problem in checked.problems[:SHOWN]:
        output.say(problem.sentence)
    if len(checked.problems) > SHOWN:
        output.say(f"… and {len(checked.problems) - SHOWN} more")
    if checked.problems:
        output.say(f"{file}: NOT as it was signed")
    else:
        assert checked.key is not None
        skipped = f", {checked.skipped} were missing when it was made" if checked.skipped else ""
        output.say(f"{file}: every byte is as it was signed at {checked.issued_at}")
        output.say(f"  {checked.archive}: {checked.files} files{skipped}")
        if known:
            output.say("  by the key that you gave")
        else:
            output.say(f"  by the key {checked.key.text}")
            output.say("  Whose key that is was not checked: compare it, or give it with --key")
    output.result(_as_json(checked))


def _as_json(checked: Checked) -> dict[str, Any]:
    return {
        "ok": not checked.problems,
        "archive": checked.archive,
        "issuedAt": checked.issued_at,
        "publicKey": checked.key.text if checked.key else None,
        "files": checked.files,
        "skipped": checked.skipped,
        "sizeBytes": checked.size_bytes,
        "problems": [one._asdict() for one in checked.problems],
    }
