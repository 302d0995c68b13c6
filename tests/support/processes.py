"""The product's own processes, started and watched from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.forks import Forked, can_fork, fork_lingxi
from tests.support.least_rights import as_app
from tests.support.servers import ROOT
from tests.support.waiting import wait_until_sync

_NOISE = re.compile(
    r"Traceback \(most recent call last\)|Task exception was never retrieved|was never awaited"
)
LINGXI = [sys.executable, "-m", "lingxi"]
_KILLED_SECONDS = 30.0
_SERVERS = ("DATABASE_URL", "REDIS_URL")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIPS_CONCURRENCY", "MALLOC_ARENA_MAX")


def environment(**variables: str) -> dict[str, str]:
    """A clean environment for a child: nothing of the caller's settings, `variables` added, `src` importable."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", **variables}


def run_lingxi(
    *arguments: str,
    env: Mapping[str, str],
    timeout_seconds: float = 60,
    cwd: Path | None = None,
    text_in: str = "",
) -> subprocess.CompletedProcess[str]:
    """`lingxi …` to its end, with no terminal; `env` is added to a clean environment."""
    whole = environment(**env)
    command = [*LINGXI, *arguments]
    if not can_fork(whole):
        return subprocess.run(
            command,
            env=whole,
            cwd=cwd,
            input=text_in,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )
    with ExitStack() as stack:
        given, out, log = (stack.enter_context(tempfile.TemporaryFile("w+b")) for _ in range(3))
        given.write(text_in.encode())
        given.seek(0)
        process = fork_lingxi(
            arguments,
            env=whole,
            cwd=cwd,
            stdin=given.fileno(),
            stdout=out.fileno(),
            stderr=log.fileno(),
        )
        try:
            code = process.wait(timeout_seconds)
        finally:
            process.kill()
        out.seek(0)
        log.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(), log.read().decode())


class Process:
    """A child with its output in two files. Its own process group, so that grandchildren can be found and ended."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], folder: Path, name: str) -> None:
        self.name = name
        self.out_path, self.log_path = folder / f"{name}.out", folder / f"{name}.log"
        self._popen: subprocess.Popen[bytes] | Forked
        with (
            open(os.devnull, "rb") as nothing,
            open(self.out_path, "wb") as out,
            open(self.log_path, "wb") as log,
        ):
            if list(arguments[:3]) == LINGXI and can_fork(env):
                self._popen = fork_lingxi(
                    arguments[3:],
                    env=env,
                    cwd=folder,
                    stdin=nothing.fileno(),
                    stdout=out.fileno(),
                    stderr=log.fileno(),
                )
                return
            self._popen = subprocess.Popen(
                list(arguments),
                env=dict(env),
                stdin=nothing,
                stdout=out,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; −9 after SIGKILL."""
        return self._popen.poll()

    def log(self) -> str:
        """What it wrote to stderr so far."""
        return self.log_path.read_text(errors="replace")

    def output(self) -> str:
        """What it wrote to stdout so far."""
        return self.out_path.read_text(errors="replace")

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """Its structured log lines, only those named `event` if given."""
        found = []
        for line in self.log().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and event in (None, entry.get("event")):
                found.append(entry)
        return found

    def wait_for_log(self, pattern: str, timeout_seconds: float = 20) -> re.Match[str]:
        """Wait until its log or output matches `pattern`; fails at once when it ended without."""
        compiled = re.compile(pattern)

        def fact() -> re.Match[str] | None:
            ended = self.exit_code is not None
            match = compiled.search(self.log()) or compiled.search(self.output())
            assert match or not ended, (
                f"{self.name} ended ({self.exit_code}) before /{pattern}/:\n{self.tail()}"
            )
            return match

        found = wait_until_sync(
            fact, timeout_seconds, f"{self.name} says /{pattern}/; it said:\n{self.tail()}"
        )
        assert found is not None
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal (it alone, not its children)."""
        self._popen.send_signal(number)

    def wait(self, timeout_seconds: float = 40) -> int:
        """Wait for its end; returns the exit code."""
        try:
            return self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} still runs after {timeout_seconds} s:\n{self.tail()}"
            ) from None

    def stop(self, timeout_seconds: float = 40) -> int:
        """SIGTERM, and wait for the end in order."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_seconds)

    def kill(self) -> None:
        """SIGKILL it alone, as the kernel's out-of-memory killer would."""
        self._popen.kill()
        self._popen.wait(_KILLED_SECONDS)

    def kill_group(self) -> None:
        """SIGKILL it and whatever it started in its group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._popen.wait(_KILLED_SECONDS)

    def tail(self, size: int = 3000) -> str:
        """The end of log and output, for messages."""
        return f"{self.log()[-size:]}\n{self.output()[-size:]}"

    def assert_clean_log(self) -> None:
        """No traceback, no forgotten coroutine, no lost exception."""
        text = self.log() + self.output()
        found = _NOISE.search(text)
        assert found is None, (
            f"{self.name} logged:\n{text[max(0, found.start() - 500) : found.start() + 3000]}"
        )


class Processes:
    """Starts processes and ends all of them; made by the fixture `processes`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []
        self._number = count(1)

    def start(self, arguments: Sequence[str], *, env: Mapping[str, str], name: str = "process") -> Process:
        """Any command, in a clean environment plus `env`."""
        label = f"{next(self._number)}-{name}"
        process = Process(arguments, environment(**env), self._folder, label)
        self._started.append(process)
        return process

    def lingxi(self, *arguments: str, env: Mapping[str, str]) -> Process:
        """`lingxi …` in a clean environment plus `env`; what serves connects with the least rights."""
        if arguments[0] in ("api", "worker", "dispatcher"):
            env = {name: as_app(value) if name in _SERVERS else value for name, value in env.items()}
        return self.start([*LINGXI, *arguments], env=env, name=arguments[0])

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            process.kill_group()

    def assert_clean_logs(self) -> None:
        """Of all that were started."""
        for process in self._started:
            process.assert_clean_log()
