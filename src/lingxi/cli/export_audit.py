"""`lingxi export-audit`: who changed what, as JSON lines or CSV, of any length in little memory."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import AsyncIterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from lingxi.cli.answers import duration_seconds
from lingxi.cli.exits import usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DEFAULT_URL, DataDirOption, TokenOption, UrlOption
from lingxi.cli.output import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingxi.client import Client
    from lingxi.db.session import Connection

COLUMNS = ("id", "at", "workspaceId", "actor", "actorName", "actorRole", "verb", "target", "requestId")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

TimeOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="2026-12-01, 2026-12-01T20:00:00Z, or a time ago: 24h, 30d."),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("export-audit")(export_audit)


def export_audit(
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", help="Beside the database: of this workspace, by name or id."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Beside the database: of all workspaces.")] = False,
    since: TimeOption = None,
    until: TimeOption = None,
    form: Annotated[
        Literal["jsonl", "csv"], typer.Option("--format", help="A JSON object a line, or CSV with a header.")
    ] = "jsonl",
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file that is there only when it is whole; else stdout."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Export the audit log: one's own workspace's with an admin's token, or any beside the database.

    Beside the database the oldest entry comes first, over HTTP the newest.
    """
    if workspace is not None and every:
        raise usage("give --workspace or --all, not both")
    times = (_moment(since, "--since"), _moment(until, "--until"))
    with _opened(to) as stream:
        writer = _CsvWriter(stream) if form == "csv" else _JsonWriter(stream)
        if workspace is None and not every:
            _over_http(writer, times, url, token, data_dir)
        else:
            _beside_the_database(writer, times, workspace, data_dir)
    sys.stderr.write(f"{writer.count} {'entry' if writer.count == 1 else 'entries'}\n")


def _over_http(
    writer: _Writer,
    times: tuple[datetime | None, datetime | None],
    url: str,
    token: str | None,
    data_dir: Path,
) -> None:
    from lingxi.cli.tasks import with_client

    since, until = (None if time is None else time.isoformat() for time in times)

    async def run(client: Client) -> None:
        await writer.all(client.audit(since=since, until=until))

    with_client(url, token, data_dir, run)


def _beside_the_database(
    writer: _Writer, times: tuple[datetime | None, datetime | None], workspace: str | None, data_dir: Path
) -> None:
    from lingxi.cli.access import beside_the_database, named_workspace

    async def run(connection: Connection) -> None:
        from lingxi.services.read_audit import export_audit

        found = None if workspace is None else (await named_workspace(connection, workspace)).id
        entries = export_audit(connection, found, since=times[0], until=times[1])
        await writer.all(entry.to_wire() async for entry in entries)

    beside_the_database(data_dir, run)


def _moment(text: str | None, option: str) -> datetime | None:
    """The time that was meant; a date is its beginning in UTC."""
    if text is None:
        return None
    if (seconds := duration_seconds(text, "smhdw")) is not None:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise usage(f"{option} is a time like 2026-12-01T20:00:00Z, a date, or a time ago like 24h") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its name when it is complete."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="")  # type: ignore[union-attr]
        yield sys.stdout
        sys.stdout.flush()
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "x", encoding="utf-8", newline="", opener=_private) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Writer:
    """Entries as they are on the wire, one after the other."""

    count = 0

    async def all(self, entries: AsyncIterator[dict[str, Any]]) -> None:
        async for entry in entries:
            self.write(entry)
            self.count += 1

    def write(self, entry: dict[str, Any]) -> None:
        raise NotImplementedError


class _JsonWriter(_Writer):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, entry: dict[str, Any]) -> None:
        self._stream.write(to_json(entry) + "\n")


class _CsvWriter(_Writer):
    """RFC 4180, with a header. What a spreadsheet would take for a formula gets an apostrophe in front."""

    def __init__(self, stream: TextIO) -> None:
        self._csv = csv.writer(stream)
        self._csv.writerow(COLUMNS)

    def write(self, entry: dict[str, Any]) -> None:
        self._csv.writerow([_cell(entry[name]) for name in COLUMNS])


def _cell(value: str | None) -> str:
    text = value or ""
    return f"'{text}" if text.startswith(_FORMULA) else text
