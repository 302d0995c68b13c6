"""Named points around every boundary that a test can turn into a kill, an error or a pause.

Unarmed (always, in production: `settings.py` refuses `LINGXI_FAILPOINTS` without `LINGXI_TESTING=1`), a point is one
look into an empty dict. Armed by `arm("worker.after_commit=kill; outbox.after_send=pause@2", folder)`:

    kill    SIGKILL of this process
    error   raises FailpointError
    pause   waits until the file `<folder>/<name>.release` exists
    @n      only the n-th time that the point is reached in a process (default: the first and all later)
    @once   only the first process that reaches it, once; what is started after it goes on

Each time an armed point acts, the file `<folder>/<name>.reached` is made first, so that a test waits for a fact.
"""

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from lingxi.names import FAILPOINTS

ACTIONS = ("kill", "error", "pause")
_POLL_SECONDS = 0.005


class FailpointError(RuntimeError):
    """Raised at a point that a test armed with `error`."""


@dataclass(slots=True)
class _Armed:
    name: str
    action: str
    at: int | None
    folder: Path | None
    once: bool = False
    reached: int = 0

    def due(self) -> bool:
        self.reached += 1
        if self.at is not None and self.reached != self.at:
            return False
        if self.folder is not None:
            try:
                (self.folder / f"{self.name}.reached").touch(exist_ok=not self.once)
            except FileExistsError:
                return False
        return True

    def released(self) -> bool:
        return self.folder is None or (self.folder / f"{self.name}.release").exists()

    def act(self) -> None:
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.action == "error":
            raise FailpointError(self.name)


_armed: dict[str, _Armed] = {}


def arm(spec: str, folder: Path | None = None) -> None:
    """Arm the points that `spec` names; ValueError for an unknown point or action."""
    for part in filter(None, (part.strip() for part in spec.split(";"))):
        name, _, what = part.partition("=")
        action, _, at = what.partition("@")
        once = at == "once"
        if name not in FAILPOINTS or action not in ACTIONS or (at and not once and not at.isdigit()):
            raise ValueError(
                f"{part!r} is no failpoint: NAME=ACTION[@N|@once] with an action of {', '.join(ACTIONS)}"
            )
        if once and folder is None:
            raise ValueError(f"{part!r} needs a folder: its file says that it was reached")
        _armed[name] = _Armed(name, action, int(at) if at and not once else None, folder, once)


def disarm() -> None:
    """Forget all armed points."""
    _armed.clear()


async def reach(name: str) -> None:
    """A boundary in async code; a pause leaves the event loop running."""
    if not _armed or (armed := _armed.get(name)) is None or not armed.due():
        return
    armed.act()
    while armed.action == "pause" and not armed.released():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(_POLL_SECONDS)


def reach_sync(name: str) -> None:
    """A boundary in a thread."""
    if not _armed or (armed := _armed.get(name)) is None or not armed.due():
        return
    armed.act()
    while armed.action == "pause" and not armed.released():
        time.sleep(_POLL_SECONDS)
