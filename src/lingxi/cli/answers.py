"""What commands ask of people before they do what cannot be undone, and times as people write them: 30m, 24h, 7d."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from lingxi.cli.exits import CommandError, Exit

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without being asked again.")]
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def make_sure(yes: bool, question: str) -> None:
    """Asks on the terminal unless it was said already; the command ends when the answer is no."""
    try:
        sure = yes or typer.confirm(question, err=True)
    except typer.Abort:  # nobody is there to answer
        sure = False
    if not sure:
        raise CommandError("Nothing was done; with --yes it is done without asking", Exit.NOT_SUCCEEDED)


def duration_seconds(text: str, units: str) -> int | None:
    """The seconds of a whole number with one of `units` (of "smhdw"); None when it is no such text."""
    found = re.fullmatch(rf"(\d{{1,6}})([{units}])", text)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]
