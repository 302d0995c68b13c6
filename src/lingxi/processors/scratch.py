"""Folders for what an attempt needs on disk: one an attempt, made when it is first asked for, gone with it.

    <root>/<owner>/<fence>/        owner: the boot of a worker process

A process holds a lock (`flock`) on its owner folder for as long as it lives, so whoever gets the lock knows that the owner
is dead, on any machine that shares the disk and whatever became of its pid: its folders are removed then. That happens
at each start, every minute, and, by the parent of a worker that died, at once.
"""

import asyncio
import fcntl
import os
import shutil
from pathlib import Path

from lingxi.observability.logging import get_logger

_LOCK = ".owner"
_SWEEP_SECONDS = 60.0
_log = get_logger("processors.scratch")


class Scratch:
    """The folders of one process."""

    def __init__(self, root: Path, owner: str) -> None:
        self.root = root
        self._owner = owner
        self._lock: int | None = None

    @property
    def folder(self) -> Path:
        """This process's own folder, for what belongs to no attempt; made and locked when first asked for."""
        folder = self.root / self._owner
        while self._lock is None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (folder / _LOCK).exists():
                self._lock = lock
            else:  # a sweep saw the folder before it was locked, and took it for a dead one's
                os.close(lock)
        return folder

    def open(self, name: str) -> Path:
        """A new, empty folder."""
        path = self.folder / name
        path.mkdir(mode=0o700)
        return path

    def abandon(self) -> None:
        """As if the process had been killed: the lock is gone, and the folders stay for whoever sweeps them."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def close(self) -> None:
        """The process ends: everything goes."""
        if self._lock is not None:
            remove(self.root / self._owner)
            os.close(self._lock)
            self._lock = None


def remove(path: Path) -> None:
    """Remove a folder with all that is in it; what cannot be removed stays for a later sweep."""
    shutil.rmtree(path, ignore_errors=True)


def used_bytes(path: Path) -> int:
    """What a folder takes on disk. Files that come and go meanwhile are no error."""
    total = 0
    for folder, _, files in os.walk(path, onerror=None):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


def remove_owner(root: Path, owner: str) -> None:
    """The parent's part: this worker process died."""
    remove(root / owner)


def remove_dead(root: Path) -> int:
    """Remove the folders of owners that are no more; answers how many."""
    try:
        owners = [entry for entry in root.iterdir() if entry.is_dir()]
    except OSError:
        return 0
    return sum(_remove_if_dead(owner) for owner in owners)


def _remove_if_dead(owner: Path) -> bool:
    try:
        lock = os.open(owner / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # just being made, or just being removed
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(owner)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


class ScratchSweep:
    """A loop beside the consumers: removes the folders of the dead at the start and every minute."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until `stop`."""
        while not self._stopping.is_set():
            if removed := await asyncio.to_thread(remove_dead, self._root):
                _log.info("scratch_removed", owners=removed)
            try:
                await asyncio.wait_for(self._stopping.wait(), _SWEEP_SECONDS)
            except TimeoutError:
                continue

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
