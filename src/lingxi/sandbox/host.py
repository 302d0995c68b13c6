"""One child process, seen from its parent.

A plain process of our own program (no fork of a process that has threads) with a socket to us, over which open files go
as descriptors. It knows no secrets: its environment is made here.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lingxi.sandbox.wire import GO, MESSAGE_BYTES, READY, TAKEN


class ChildDiedError(Exception):
    """The child's end of the socket is closed."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What the kernel lets a child have: address space, and the size of a file that it writes."""

    memory_bytes: int
    file_bytes: int


class Child:
    """One process of `python -m module`, and our end of its socket."""

    message_bytes = MESSAGE_BYTES  # the most that it may say at once

    def __init__(self, module: str, limits: ChildLimits, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        numbers = (theirs.fileno(), limits.memory_bytes, limits.file_bytes)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={
                    "LANG": "C.UTF-8",
                    "PYTHONDONTWRITEBYTECODE": "1",  # cut by the limit of a file, it would break every later start
                    **environment,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                },
                start_new_session=True,  # a terminal's Ctrl-C is for the parent
            )

    async def ready(self) -> None:
        """Wait until it can be asked. ChildDiedError."""
        if await self._receive() != READY:
            raise ChildDiedError

    async def take(self, what: bytes, descriptors: Sequence[int]) -> bool:
        """Hand it open files, and say what for; false when it was dead already."""
        try:
            socket.send_fds(self._socket, [what], descriptors)
            return await self._receive() == TAKEN
        except (OSError, ChildDiedError):
            return False

    async def answer(self) -> dict[str, Any]:
        """The next thing that it says about what it took. ChildDiedError."""
        answer: dict[str, Any] = json.loads(await self._receive())
        return answer

    async def proceed(self) -> dict[str, Any]:
        """Let it go on; what it says then. ChildDiedError."""
        try:
            self._socket.send(GO)
        except OSError as error:
            raise ChildDiedError from error
        return await self.answer()

    async def _receive(self) -> bytes:
        try:
            message = await asyncio.get_running_loop().sock_recv(self._socket, self.message_bytes)
        except OSError as error:
            raise ChildDiedError from error
        if not message:
            raise ChildDiedError
        return message

    def kill(self) -> None:
        """At once, with whatever it has started; nobody waits here."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # the leader of a session leads its group too
        self._socket.close()

    def how_it_ended(self) -> str:
        """`signal SIGSEGV` or `exit code 1`, of a child whose end of the socket is closed."""
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "it went silent"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
