"""The command line as a whole: its commands, and how any error becomes one sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from lingxi import __version__
from lingxi.cli import (
    access,
    albums,
    checking,
    dead_letters,
    export_audit,
    invariants,
    processors,
    prune,
    publish,
    queues,
    retrying,
    servers,
    status,
    storage,
    tasks,
    verify_archive,
    webhooks,
    why,
    workers,
)
from lingxi.cli.exits import CommandError, Exit, explain
from lingxi.cli.output import report

HELP = """Lingxi: batches of media work, seen through to a truthful end.

Exit codes: 0 done · 1 the task did not succeed, or something was found wrong · 2 used wrongly · 3 a server cannot be
reached · 4 refused (4xx) · 5 the server failed (5xx) · 6 not possible on this machine or with these settings ·
130 Ctrl-C.
"""


def build() -> typer.Typer:
    """The typer application; nothing heavy is imported until a command runs."""
    app = typer.Typer(
        name="lingxi",
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root)
    servers.register(app)
    access.register(app)
    storage.register(app)
    tasks.register(app)
    retrying.register(app)
    why.register(app)
    status.register(app)
    publish.register(app)
    albums.register(app)
    checking.register(app)
    webhooks.register(app)
    processors.register(app)
    invariants.register(app)
    dead_letters.register(app)
    queues.register(app)
    workers.register(app)
    prune.register(app)
    export_audit.register(app)
    verify_archive.register(app)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        print(f"lingxi {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """The options before the command; --version ends in its callback."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command and answers its exit code. Never raises, and never prints a traceback."""
    try:
        status = build()(list(arguments), standalone_mode=False, prog_name="lingxi")
        if status == Exit.INTERRUPTED:  # what typer makes of a KeyboardInterrupt
            raise CommandError("Interrupted", Exit.INTERRUPTED)
        return status if isinstance(status, int) else Exit.OK
    except Exception as error:
        return _end(_usage_error(error) or explain(error), arguments)


def _end(error: CommandError, arguments: Sequence[str]) -> int:
    try:
        report(error, as_json="--json" in arguments)
    except BrokenPipeError:
        return _reader_left()
    return int(error.exit_code)


def _usage_error(error: Exception) -> CommandError | None:
    """typer carries a click of its own, out of sight: its errors are known by their `format_message`."""
    tell = getattr(error, "format_message", None)
    if tell is None:
        return None
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help
        sys.stderr.write(tell() + "\n")
        return CommandError("Name a command", Exit.USAGE)
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return CommandError(f"{tell().rstrip('.')}{hint}", Exit.USAGE)


def _reader_left() -> int:
    """`lingxi list | head`: whoever read our output has had enough; keep Python from complaining at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.OK
