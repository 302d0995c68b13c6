"""Options that several commands share, spelt once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Spelt here too, as reading the settings costs a client command half of its time; a test compares them.
DEFAULT_URL = "http://127.0.0.1:3000"
DEFAULT_DATA_DIR = Path(".lingxi")

JsonOption = Annotated[
    bool, typer.Option("--json", help="Write JSON: the last line on stdout is one object.")
]
UrlOption = Annotated[
    str,
    typer.Option("--url", envvar="LINGXI_URL", help="The server's address.", show_default=True),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="LINGXI_TOKEN",
        help="The access token; without one, the file `token` in the data folder is read.",
        show_default=False,
    ),
]
DataDirOption = Annotated[Path, typer.Option("--data-dir", envvar="LINGXI_DATA_DIR", help="The data folder.")]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.", show_default=False)]
