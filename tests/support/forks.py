"""`lingxi …` without the second that its imports take: a process that has imported it all forks at each call.

What runs is the product's own entry point in a process of its own, with its own arguments, environment, folder, session and
files. Only how the interpreter came to have the modules differs, so whoever asks for something that is settled before them
(a preloaded library, Python's own variables) gets a fresh interpreter. The tests of the installed wheel, of `up` and of `./run`
start fresh ones anyway.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

_PACKAGES = ("lingxi.bootstrap", "lingxi.cli", "lingxi.client", "lingxi.embedded")
_MODULES = ("lingxi.db.migrate", "rich.table", "typer.rich_utils")
_PR_SET_PDEATHSIG = 1
_SETTLED_EARLY = ("PYTHON", "LD_", "LC_ALL", "FAKETIME", "VIPS_", "MALLOC_")
_INHERITED = frozenset({"PYTHONPATH", "PYTHONUNBUFFERED", "LC_ALL", "VIPS_CONCURRENCY", "MALLOC_ARENA_MAX"})


class Forked:
    """A forked process, with the part of `subprocess.Popen` that tests use. `returncode` is negative after a signal."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.returncode: int | None = None
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float) -> int:
        """The exit code, or `subprocess.TimeoutExpired`."""
        if (code := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired("lingxi", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float) -> int | None:
        with self._lock:
            if self.returncode is None:
                self._connection.settimeout(timeout or 0.0001)
                try:
                    self.returncode = os.waitstatus_to_exitcode(int(self._line()))
                except TimeoutError:
                    return None
                self._connection.close()
            return self.returncode

    def _line(self) -> bytes:
        """Lines are short, and come whole."""
        line = self._connection.recv(64)
        if not line:
            raise RuntimeError("the process that forks is gone")
        return line


def can_fork(env: Mapping[str, str]) -> bool:
    """Is nothing in this environment settled before the modules are imported?"""
    return all(
        not name.startswith(_SETTLED_EARLY)
        or (name in _INHERITED and value == _parent_environment().get(name))
        for name, value in env.items()
    )


def fork_lingxi(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    stdin: int,
    stdout: int,
    stderr: int,
) -> Forked:
    """Start `lingxi …`; the three are descriptors. `env` is all of its environment."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(_forker())
    asked = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd or Path.cwd())}
    with tempfile.TemporaryFile() as file:  # an environment may be longer than a packet
        file.write(json.dumps(asked).encode())
        file.flush()
        socket.send_fds(connection, [b"."], [file.fileno(), stdin, stdout, stderr])
    return Forked(connection)


@cache
def _parent_environment() -> dict[str, str]:
    from tests.support.processes import environment

    return environment()


@cache
def _forker() -> str:
    """The address of this test process's forking process; it ends with us."""
    folder = tempfile.mkdtemp(prefix="lingxi-forks-")
    address = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, __file__, address],
        env=_parent_environment(),
        stdin=subprocess.PIPE,  # closed when we end, however that happens
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.kill()
        process.wait()
        Path(address).unlink(missing_ok=True)
        Path(folder).rmdir()

    atexit.register(end)
    return address


# ── the process that forks ───────────────────────────────────────────────────────────────────────────────


def serve(address: str) -> None:
    """Fork for each connection, until standard input is closed."""
    for name in _PACKAGES:
        package = import_module(name)
        for module in iter_modules(package.__path__, f"{name}."):
            import_module(module.name)
    for name in _MODULES:
        import_module(name)
    assert threading.active_count() == 1, "a thread would be missing in what is forked"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that wait are waited for by nobody
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    print("ready", flush=True)
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _fork_and_tell(connection)
        connection.close()


def _fork_and_tell(connection: socket.socket) -> None:
    """In a process that waits: fork what was asked for; tell its id, and how it ended."""
    _die_with_parent()
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 4)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _run(descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    try:
        connection.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        connection.send(str(status).encode())
    except OSError:  # nobody asks any more
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _die_with_parent() -> None:
    """So that nothing outlives a test process that was killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(descriptors: list[int]) -> None:
    """Become `lingxi …`."""
    _die_with_parent()
    file, *streams = descriptors
    with open(file) as asked_file:
        asked_file.seek(0)
        asked: dict[str, Any] = json.load(asked_file)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["lingxi", *asked["arguments"]]
    sys.stdin = open(0)  # noqa: SIM115
    sys.stdout = TextIOWrapper(open(1, "wb", 0), write_through=True)  # noqa: SIM115
    sys.stderr = TextIOWrapper(open(2, "wb", 0), errors="backslashreplace", write_through=True)  # noqa: SIM115
    from lingxi.cli import main

    code: Any = 0
    try:
        main()
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
        code = 1
    # As the interpreter ends: threads are waited for, what is registered runs.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    os._exit(code or 0)


if __name__ == "__main__":
    serve(sys.argv[1])
