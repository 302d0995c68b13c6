"""How a client command finds its server and its token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lingxi.cli.exits import usage
from lingxi.cli.running import read_secret

if TYPE_CHECKING:
    from lingxi.client import Client


def connect(url: str, token: str | None, data_dir: Path) -> Client:
    """A client for `url`, with the token given, else the one that `lingxi up` left in the data folder, else none."""
    from lingxi.client import Client

    try:
        return Client(url, (token or _token_of_data_dir(data_dir)))
    except ValueError as error:
        raise usage(f"--url: {error}") from None


def _token_of_data_dir(data_dir: Path) -> str | None:
    """What `lingxi up` left there, if it did."""
    return read_secret(data_dir.expanduser() / "token") or None
