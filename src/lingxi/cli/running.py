"""What a running `lingxi up` leaves in its data folder, so that commands beside it find its servers.

The file `running.json` (mode 0600, as it holds passwords) is there while `up` runs, and is removed at its end. One that
was left by a kill names a process that is gone, and is not believed.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingxi.cli.exits import not_possible

if TYPE_CHECKING:
    from lingxi.settings import Settings

FILE = "running.json"


@dataclass(frozen=True, slots=True)
class Running:
    """Where a running `up` serves, and which servers it uses."""

    pid: int
    url: str
    database_url: str
    redis_url: str


def write(data_dir: Path, running: Running) -> None:
    write_secret(data_dir / FILE, json.dumps(asdict(running)) + "\n")


def remove(data_dir: Path) -> None:
    (data_dir / FILE).unlink(missing_ok=True)


def read(data_dir: Path) -> Running | None:
    """None when no `up` runs on this folder."""
    try:
        found = Running(**json.loads((data_dir / FILE).read_text()))
        os.kill(found.pid, 0)
    except (OSError, ValueError, TypeError):
        return None
    return found


def read_secret(path: Path) -> str:
    """The text of a file of `write_secret`; empty when there is none."""
    return path.read_text("ascii", "replace").strip() if path.exists() else ""


def write_secret(path: Path, text: str) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


def settings_beside(data_dir: Path, **overrides: Any) -> Settings:
    """The settings, with the servers of a running `up` where none are set. CommandError when there are neither."""
    from lingxi.settings import load_settings

    overrides["lingxi_data_dir"] = data_dir
    settings = load_settings(**overrides)
    if not (settings.database_url and settings.redis_url) and (found := read(settings.data_dir)) is not None:
        overrides["database_url"] = settings.database_url or found.database_url
        overrides["redis_url"] = settings.redis_url or found.redis_url
        settings = load_settings(**overrides)
    if not settings.database_url:
        raise not_possible(
            f"DATABASE_URL is not set and no `lingxi up` runs on {settings.data_dir}: set it, or start `lingxi up`"
        )
    return settings
