"""What the runbook says under an alert: its commands, as they are printed there, and a shell to type them into."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def commands(alert: str) -> list[str]:
    """The code spans of the entry's **Do**, in their order. LookupError without such an entry."""
    text = (ROOT / "docs/runbook.md").read_text("utf-8")
    entry = re.search(rf"^## {alert}\n(.+?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    do = entry and re.search(r"^- \*\*Do\*\*: (.+?)(?=^- |\Z)", entry[1], re.MULTILINE | re.DOTALL)
    if not do:
        raise LookupError(f"docs/runbook.md has no **Do** for {alert}")
    return re.findall(r"`([^`]+)`", do[1])


def command(alert: str, beginning: str, **known: str) -> str:
    """The one command that begins so, with the words in capitals that the engineer knows replaced. LookupError without one."""
    found = [one for one in commands(alert) if one.startswith(beginning)]
    if len(found) != 1:
        raise LookupError(f"the entry of {alert} has {len(found)} commands that begin with {beginning!r}")
    return re.sub("|".join(rf"\b{name}\b" for name in known) or r"(?!)", lambda m: known[m[0]], found[0])


async def typed(line: str, environment: Mapping[str, str], timeout_seconds: float = 60.0) -> str:
    """The line in a shell, to its end; what it said. RuntimeError when it fails."""
    process = await asyncio.create_subprocess_shell(
        line,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(timeout_seconds):
        said = (await process.communicate())[0].decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{line!r} failed ({process.returncode}): {said[-2000:]}")
    return said
