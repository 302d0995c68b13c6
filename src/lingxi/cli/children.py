"""Child processes of `up` and `demo`: started, watched, started again when they crash, and ended in order.

A child is in a session of its own, so that Ctrl-C at the terminal reaches only us and the order of ending is ours.
Should we be killed outright, the kernel ends it (PR_SET_PDEATHSIG). Its log goes to a file.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lingxi.cli.exits import Exit, not_possible

PR_SET_PDEATHSIG = 1
KEEP_LOG_BYTES = 10 * 1024 * 1024
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
NOT_READY_EXITS = 3
"""So many ends before the first `mark_ready` mean that it cannot run here."""


class Child:
    """One supervised process. `on_restart(name, exit_code, pause_seconds)` is told of each crash."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        log_path: Path,
        on_restart: Callable[[str, int, float], None],
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._arguments = arguments
        self._environment = environment
        self._on_restart = on_restart
        self._process: asyncio.subprocess.Process | None = None
        self._ending = False
        self._ready = False
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Starts the process and keeps it running until `stop`."""
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep-{self.name}")

    def mark_ready(self) -> None:
        """It has worked once: from now on it is always started again."""
        self._ready = True

    def check(self) -> None:
        """Raises CommandError once it was given up on."""
        if self._keeper is not None and self._keeper.done() and not self._ending:
            self._keeper.result()

    async def stop(self, *, grace_seconds: float, hurry: Callable[[], bool]) -> None:
        """SIGTERM, a wait of `grace_seconds`, then SIGKILL; at once when `hurry()` becomes true."""
        self._ending = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        _send(process, signal.SIGTERM)
        end = time.monotonic() + grace_seconds
        while time.monotonic() < end and not hurry():
            try:
                await asyncio.wait_for(process.wait(), 0.2)
                return
            except TimeoutError:
                continue
        _send(process, signal.SIGKILL)
        await process.wait()

    async def _keep(self) -> None:
        pause_seconds, exits = FIRST_PAUSE_SECONDS, 0
        while True:
            assert self._process is not None
            started = time.monotonic()
            exit_code = await self._process.wait()
            exits += 1
            hopeless = exit_code == Exit.NOT_POSSIBLE_HERE or exits >= NOT_READY_EXITS
            if not self._ready and hopeless:
                raise not_possible(f"The {self.name} process does not start: {self.last_words()}")
            if time.monotonic() - started > STEADY_SECONDS:
                pause_seconds = FIRST_PAUSE_SECONDS
            self._on_restart(self.name, exit_code, pause_seconds)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
            await self._spawn()

    async def _spawn(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.log_path.exists() and self.log_path.stat().st_size > KEEP_LOG_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".old.log"))
        with self.log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self._environment),
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )

    def last_words(self) -> str:
        """The last line of its log that is for people."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        last = next((line for line in reversed(lines) if line.strip()), "its log is empty")
        return last.removeprefix("lingxi: ")[:600]


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:
        pass


def _die_with_parent() -> Callable[[], None]:
    """PR_SET_PDEATHSIG counts from the *thread* that forks: the event loop's, which is the main thread here."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def in_child() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return in_child
