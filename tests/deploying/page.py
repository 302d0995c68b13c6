"""Commands as `docs/deploying.md` prints them, run as they stand."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.processes import environment
from tests.support.servers import ROOT

PAGE = ROOT / "docs/deploying.md"


def block(label: str) -> str:
    """The shell block that the page marks with `label`."""
    (found,) = re.findall(rf"^```sh {label}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


def follow(
    label: str, folder: Path, *, without: str = "", timeout_seconds: float = 120, **variables: str
) -> str:
    """Run that block where `infra/` and `lingxi` are at hand, to its end without an error; lines with `without` are left out.

    Files that it writes are in `folder`. Returns what it said.
    """
    lines = [line for line in block(label).splitlines() if not (without and without in line)]
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    lingxi = programs / "lingxi"
    lingxi.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m lingxi "$@"\n')
    lingxi.chmod(0o755)
    if not (folder / "infra").exists():
        (folder / "infra").symlink_to(ROOT / "infra")
    env = environment(**variables)
    env["PATH"] = f"{programs}:{env['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_seconds,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
