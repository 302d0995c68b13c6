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
    label: str,
    folder: Path,
    *,
    without: str = "",
    replacing: tuple[str, str] = ("", ""),
    timeout_seconds: float = 120,
    **variables: str,
) -> str:
    """Run that block where `infra/` and `lingxi` are at hand, to its end without an error; lines with `without` are left out.

    It is run in `folder`, with the one text of `replacing` in place of the other. Returns what it said.
    """
    lines = [line for line in block(label).splitlines() if not (without and without in line)]
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, arguments in (("lingxi", "-m lingxi"), ("python3", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    if not (folder / "infra").exists():
        (folder / "infra").symlink_to(ROOT / "infra")
    env = environment(**variables)
    env["PATH"] = f"{programs}:{env['PATH']}"
    text = "\n".join(lines)
    if replacing[0]:
        assert replacing[0] in text
        text = text.replace(*replacing)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
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
