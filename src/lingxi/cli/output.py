"""What a command writes: people get lines (and a live bar on a terminal), programs get one JSON object.

With `--json` the last line on stdout is one JSON object, also when the command fails: then it is
`{"error": {"message", "code", "exitCode"}}`. Errors for people go to stderr as one sentence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from lingxi.cli.exits import CommandError


class Output:
    """Where one command writes to. `live` is True when a person watches on a terminal."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.live = not as_json and sys.stdout.isatty()
        self._console: Console | None = None

    @property
    def console(self) -> Console:
        """rich's console on stdout, made when first needed: importing it costs time."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=True)
        return self._console

    def say(self, text: str = "", *, style: str | None = None) -> None:
        """One line for people; nothing with --json."""
        if self.as_json:
            return
        if self.live:
            self.console.print(text, style=style, markup=False)
        else:
            write_line(text)

    def complain(self, text: str) -> None:
        """One line on stderr, also with --json."""
        sys.stderr.write(_printable(text) + "\n")

    def line(self, value: Any) -> None:
        """One line of JSON on the way to the result (frames of `watch`); nothing without --json."""
        if self.as_json:
            write_line(to_json(value))

    def result(self, value: Any) -> None:
        """The one JSON object that ends the output of --json; nothing without it."""
        self.line(value)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A plain table, aligned in columns; nothing with --json. The last column may be of any length."""
        if self.as_json:
            return
        printable = [[_printable(cell) for cell in row] for row in [list(columns), *rows]]
        widths = [max(len(row[at]) for row in printable) for at in range(len(columns))]
        for number, row in enumerate(printable):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.say("  ".join(cells).rstrip(), style="bold" if number == 0 else None)


def write_line(text: str) -> None:
    """One line to stdout, at once. Characters that the terminal's encoding lacks are escaped, not fatal."""
    encoding = sys.stdout.encoding or "utf-8"
    safe = text.encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(safe + "\n")
    sys.stdout.flush()


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def report(error: CommandError, *, as_json: bool) -> None:
    """Tells an error: a sentence on stderr, and with --json the object on stdout too."""
    if as_json:
        body = {"message": error.message, "code": error.code, "exitCode": int(error.exit_code)}
        write_line(to_json({"error": body}))
    sys.stderr.write(f"lingxi: {_printable(error.message)}\n")


def _printable(text: str) -> str:
    """Text from outside cannot steer the terminal: control characters are shown as escapes."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
