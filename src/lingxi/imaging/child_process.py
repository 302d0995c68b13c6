"""One decoder process, seen from its parent."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from lingxi.imaging.child import ANSWER_BYTES, GO, READY, TAKEN

_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",  # memory stays flat over hundreds of photos; without it, it creeps
    # Keep a photo's worth of freed memory: to give it back each time costs thousands of page faults a photo.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "VIPS_BLOCK_UNTRUSTED": "1",
    "VIPS_CONCURRENCY": "1",
    "VIPS_WARNING": "0",
}


class ChildDiedError(Exception):
    """The child's end of the socket is closed."""


class Child:
    """One process, and our end of its socket."""

    def __init__(self, memory_limit_bytes: int) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self.pictures = 0
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "lingxi.imaging.child",
                    str(theirs.fileno()),
                    str(memory_limit_bytes),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                start_new_session=True,  # a terminal's Ctrl-C is for the parent
            )

    async def ready(self) -> None:
        """Wait until it can be asked. ChildDiedError."""
        if await self._receive() != READY:
            raise ChildDiedError

    async def take(self, what: bytes, descriptors: Sequence[int]) -> bool:
        """Hand it a file, and say what for; false when it was dead already."""
        try:
            socket.send_fds(self._socket, [what], descriptors)
            return await self._receive() == TAKEN
        except (OSError, ChildDiedError):
            return False

    async def answer(self) -> dict[str, Any]:
        """What it says about the file that it took: the bytes that it needs, or the end. ChildDiedError."""
        answer: dict[str, Any] = json.loads(await self._receive())
        return answer

    async def proceed(self) -> dict[str, Any]:
        """Let it decode; what it says then. ChildDiedError."""
        try:
            self._socket.send(GO)
        except OSError as error:
            raise ChildDiedError from error
        return await self.answer()

    async def _receive(self) -> bytes:
        try:
            message = await asyncio.get_running_loop().sock_recv(self._socket, ANSWER_BYTES)
        except OSError as error:
            raise ChildDiedError from error
        if not message:
            raise ChildDiedError
        return message

    def kill(self) -> None:
        """At once; nobody waits here."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self._socket.close()

    def how_it_ended(self) -> str:
        """`signal SIGSEGV` or `exit code 1`, of a child whose end of the socket is closed."""
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "it went silent"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
