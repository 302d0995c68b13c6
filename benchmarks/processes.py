"""Child processes of a benchmark: started with a known environment, waited for by a line, ended by their own id."""

import asyncio
import contextlib
import ctypes
import os
import pathlib
import signal
from collections.abc import AsyncIterator, Mapping, Sequence

READY_SECONDS = 180.0
STOP_SECONDS = 15.0
STREAM_LIMIT_BYTES = 16 * 1024 * 1024


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Child:
    """One process whose output goes to a log file, but for the lines that the harness reads."""

    def __init__(self, process: asyncio.subprocess.Process, log: pathlib.Path) -> None:
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    async def line(self, timeout_seconds: float = READY_SECONDS) -> str:
        """The next line of its output. RuntimeError with the log's end when it ended instead."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(timeout_seconds):
                raw = await self.process.stdout.readline()
        except TimeoutError:
            raise RuntimeError(
                f"a process said nothing for {timeout_seconds:.0f} s: {self.log_end()}"
            ) from None
        if not raw:
            raise RuntimeError(f"a process ended early: {self.log_end()}")
        return raw.decode().strip()

    def log_end(self) -> str:
        """The last part of its log, for an error message."""
        return self.log.read_text(errors="replace")[-2000:]

    async def wait_ready(self) -> None:
        """Read on until the line `ready`."""
        while await self.line() != "ready":
            pass

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL when that was not enough."""
        if self.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


@contextlib.asynccontextmanager
async def child(
    argv: Sequence[str], *, env: Mapping[str, str], log: pathlib.Path, talks: bool = True
) -> AsyncIterator[Child]:
    """Run `argv` with `env` on top of PATH and HOME; it is ended when the block is left.

    `talks`: its output is read line by line. Otherwise it goes to the log, since a full pipe would stop the process.
    """
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE if talks else errors,
            stderr=errors,
            env={**base_environment(), **env},
            limit=STREAM_LIMIT_BYTES,
            preexec_fn=die_with_parent,
        )
    started = Child(process, log)
    try:
        yield started
    finally:
        await started.stop()


def base_environment() -> dict[str, str]:
    """What a child needs of ours, and no setting of the caller's shell that could change a figure."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
    return {name: os.environ[name] for name in kept if name in os.environ}
