"""Which processes still have to do with a folder: by command line, environment or working directory."""

from __future__ import annotations

import os
from pathlib import Path


def processes_of(folder: Path, *, without: frozenset[int] = frozenset()) -> dict[int, str]:
    """Live processes that name `folder` anywhere, with their command lines. Zombies do not count."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in without | {os.getpid()}:
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            command = (entry / "cmdline").read_bytes()
            told = command + (entry / "environ").read_bytes() + os.fsencode(os.readlink(entry / "cwd"))
        except OSError:
            continue
        if state != "Z" and os.fsencode(folder) in told:
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found
