"""What the embedded servers share: one live owner per folder, and children that do not outlive it.

Three things together make "ended with its owner" true, also when the owner is killed with SIGKILL:

- the owner holds a `flock` on `owner.lock`, which the kernel drops when it dies, so the folder has one owner at most;
- the server is started with `PR_SET_PDEATHSIG`, so the kernel signals it when its owner dies;
- whoever starts next looks for a server that is still running on this folder, by its command line, and ends it first.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

_PR_SET_PDEATHSIG = 1
_LOG_KEEP_BYTES = 10 * 1024 * 1024
_POLL_SECONDS = 0.01
_START_TRIES = 3


class EmbeddedError(RuntimeError):
    """An embedded server could not be started or stopped; the text is one sentence for the person at the terminal."""


class FolderInUse(EmbeddedError):
    """Another live process owns this folder."""


class PortTaken(EmbeddedError):
    """Somebody took the chosen port between the choice and the server's own bind."""


def free_port() -> int:
    """A loopback TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def secret_file(path: Path) -> str:
    """The secret kept in `path`; made, with mode 0600, on the first call."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    secret = secrets.token_urlsafe(24)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")
    return secret


def processes_serving(marker: str, programs: Sequence[str]) -> list[int]:
    """Pids of live processes of one of `programs` that have `marker` as a whole argument of their command line."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            arguments = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            state = Path(entry.path, "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue  # ended while we looked, or not ours to see
        program = os.path.basename(os.fsdecode(arguments[0]))
        if program in programs and os.fsencode(marker) in arguments[1:] and state != "Z":
            found.append(int(entry.name))
    return found


class Supervised(ABC):
    """A server process that belongs to one folder and one owner.

    Use as a context manager, or call `start()` and `stop()`. After `stop()` it can be started again, on the same
    port. Start it from the main thread: PR_SET_PDEATHSIG fires when the *thread* that started the child ends, so from
    any other thread it is left out, and only the next start ends an orphan.
    """

    programs: ClassVar[tuple[str, ...]]
    """Names that the server's executable may have."""
    stop_signals: ClassVar[tuple[tuple[signal.Signals, float], ...]]
    """Signals to stop with, politest first, and for how many seconds each is waited."""
    log_name: ClassVar[str]

    def __init__(self, folder: Path | str, *, port: int | None = None) -> None:
        self.folder = Path(folder).absolute()
        self.password = ""
        self._given_port = port
        self._chosen_port: int | None = port
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def port(self) -> int:
        """The loopback TCP port; chosen at the first start, then kept."""
        if self._chosen_port is None:
            raise EmbeddedError("the server has not been started yet")
        return self._chosen_port

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect, password included."""

    @property
    @abstractmethod
    def _marker(self) -> str:
        """The argument by which a running server is recognised as this folder's."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make files, folders and passwords; runs once a start, under the lock, with no server running."""

    @abstractmethod
    def _launch(self) -> None:
        """Start the process by `_spawn`."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Does the server take connections now?"""

    def start(self, timeout_seconds: float = 60.0) -> Self:
        """Start and wait until connections are taken.

        Raises `FolderInUse` when another live process owns the folder, else `EmbeddedError` with the end of the log.
        """
        self._own_folder()
        try:
            self._end_orphans()
            self._prepare()
            self._launch_until_ready(time.monotonic() + timeout_seconds)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the server, politely first, and give the folder up. Harmless when it is not running."""
        process = self._process
        if process is not None:
            for number, wait_seconds in self.stop_signals:
                if process.poll() is not None:
                    break
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)  # a stopped process would not see the first one
                try:
                    process.wait(wait_seconds)
                except subprocess.TimeoutExpired:
                    continue
        self.release()

    def release(self) -> None:
        """Give the folder up without stopping anything: for whoever has ended the process in another way."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _own_folder(self) -> None:
        if self._lock is not None:
            raise EmbeddedError(f"{self.folder} is already started by this process")
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # the descriptor closes at exec, so the server does not hold the lock for a dead owner
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise FolderInUse(
                f"{self.folder} is in use by another process (pid {owner or 'unknown'})"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock = descriptor

    def _end_orphans(self) -> None:
        """End servers whose owner is gone: we hold the lock, so whatever still runs on this folder has none."""
        for number, wait_seconds in self.stop_signals:
            end = time.monotonic() + wait_seconds
            orphans = processes_serving(self._marker, self.programs)
            for pid in orphans:
                _send(pid, number)
                _send(pid, signal.SIGCONT)
            while orphans and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
                orphans = processes_serving(self._marker, self.programs)
            if not orphans:
                return
        raise EmbeddedError(f"an old server on {self.folder} does not end (pids {orphans})")

    def _launch_until_ready(self, end: float) -> None:
        for attempt in range(1, _START_TRIES + 1):
            if self._chosen_port is None:
                self._chosen_port = free_port()
            self._launch()
            try:
                self._wait_until_ready(end)
                return
            except PortTaken:
                if attempt == _START_TRIES or self._given_port is not None:
                    raise
                self._chosen_port = None

    def _wait_until_ready(self, end: float) -> None:
        assert self._process is not None
        while not self._is_ready():
            if (code := self._process.poll()) is not None:
                text = self.log_tail()
                kind = PortTaken if "ddress already in use" in text else EmbeddedError
                raise kind(f"{self.programs[0]} ended with status {code} while starting: {text}")
            if time.monotonic() > end:
                raise EmbeddedError(f"{self.programs[0]} did not get ready in time: {self.log_tail()}")
            time.sleep(_POLL_SECONDS)

    def log_tail(self, size_bytes: int = 900) -> str:
        """The end of the server's log of this start."""
        with open(self.folder / self.log_name, "rb") as log:
            start = max(self._log_start, log.seek(0, os.SEEK_END) - size_bytes)
            log.seek(start)
            return log.read().decode(errors="replace").strip()

    def _spawn(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        user: int | None = None,
        group: int | None = None,
    ) -> None:
        path = self.folder / self.log_name
        if path.exists() and path.stat().st_size > _LOG_KEEP_BYTES:
            path.replace(path.with_suffix(".old.log"))
        with open(path, "ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=dict(environment),
                start_new_session=True,  # Ctrl-C at the terminal is for the owner, which then stops us in order
                preexec_fn=_die_with_owner(self.stop_signals[0][0]),
                user=user,
                group=group,
                extra_groups=None if user is None else [],
            )

    _log_start = 0


def _die_with_owner(number: signal.Signals) -> Callable[[], None] | None:
    if threading.current_thread() is not threading.main_thread():
        return None
    owner = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != owner:  # it died before the line above
            os._exit(1)

    return in_child


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise EmbeddedError(
            f"an old server (pid {pid}) belongs to another user and cannot be ended"
        ) from None
