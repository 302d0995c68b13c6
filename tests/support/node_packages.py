"""Packages of npm for a test, installed once from the lock beside it, below `.lingxi/test`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.programs import cannot, need_program
from tests.support.servers import DATA


def node_modules(source: Path, why: str) -> Path:
    """The installed packages of the lock in `source`; skips the test, with `why`, where there is no npm, unless this is CI."""
    for program in ("node", "npm"):
        need_program(program, why)
    lock = (source / "package-lock.json").read_bytes()
    folder = DATA / "node" / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        done = folder / "installed"
        if not done.exists():
            _install(source, folder)
            done.touch()
    return folder / "node_modules"


def _install(source: Path, folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(source / name, folder / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
    # npm's own configuration (a mirror, certificates) comes from the environment, so this child gets all of it.
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if ran.returncode != 0:
        cannot(f"npm could not install the packages: {ran.stderr.strip()[-500:]}")
