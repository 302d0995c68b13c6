"""Decoding in children that can be killed: one picture a child at a time, so that a crash, a hang or a bomb costs
only the picture that caused it.

The children are plain processes of our own program (no fork of a process that has threads), each with a socket to
us: the open file goes over it as a descriptor. They know no secrets: their environment is made here. A pool of
multiprocessing workers was tried instead (pebble 5.2): there an idle child's death breaks the whole pool, and a time
limit within C code is answered three seconds late.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Final

from lingxi.imaging import limits
from lingxi.imaging.child import ANSWER_BYTES, READY, TAKEN
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import ImageFacts
from lingxi.observability.logging import get_logger

_log = get_logger("imaging.children")

_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",  # memory stays flat over hundreds of photos; without it, it creeps
    "VIPS_BLOCK_UNTRUSTED": "1",
    "VIPS_CONCURRENCY": "1",
    "VIPS_WARNING": "0",
}


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """`children`: pictures at once, and processes at most (they start when needed). Limits are for one picture."""

    children: int = 2
    time_limit_seconds: float = 30.0
    memory_limit_bytes: int = 2 << 30  # of address space; a 12-bit AVIF of 100 million pixels takes 1.9
    start_limit_seconds: float = 30.0
    recycle_after_pictures: int = 1000
    recycle_above_bytes: int = 400 << 20  # resident after a picture


class Decoders:
    """The children. Belongs to one event loop."""

    def __init__(self, config: DecoderConfig) -> None:
        self._config = config
        self._turns = asyncio.Semaphore(config.children)
        self._idle: list[_Child] = []
        self._ended: list[_Child] = []  # killed and not reaped yet
        self._closed = False

    async def inspect(self, descriptor: int) -> ImageFacts:
        """Decode the whole file behind `descriptor` and say what it is.

        ImageError: `decode_timeout` and `decoder_crashed` when a child had to be killed or died, else why the picture
        is refused. Cancelling kills the child. The descriptor stays the caller's; its position is not kept.
        """
        limits.check_file_size(os.fstat(descriptor).st_size)
        async with self._turns:
            answer = None
            while answer is None:
                answer = await self._ask(await self._take(), descriptor)
        if (facts := answer.get("facts")) is None:
            raise ImageError(answer["code"], answer["detail"])
        return ImageFacts(**facts)

    async def close(self) -> None:
        """End all children and wait for them."""
        self._closed = True
        while self._idle:
            self._end(self._idle.pop(), "closed")
        for child in self._ended:
            await asyncio.to_thread(child.process.wait)
        self._ended.clear()

    async def _ask(self, child: "_Child", descriptor: int) -> dict[str, Any] | None:
        """The answer; None when the child had died before it took the picture, which then is not to blame."""
        try:
            async with asyncio.timeout(self._config.time_limit_seconds):
                if not await child.take(descriptor):
                    self._end(child, "died_idle")
                    return None
                answer = await child.answer()
        except TimeoutError:
            self._end(child, "time_limit")
            limit = f"{self._config.time_limit_seconds:g} seconds"
            raise ImageError("decode_timeout", f"Decoding took longer than {limit}.") from None
        except _ChildDiedError:
            how = child.how_it_ended()
            self._end(child, "died")
            raise ImageError("decoder_crashed", f"The decoder died ({how}).") from None
        except BaseException:
            self._end(child, "cancelled")
            raise
        self._give_back(child, answer)
        return answer

    async def _take(self) -> "_Child":
        while self._idle:
            child = self._idle.pop()
            if child.process.poll() is None:
                return child
            self._end(child, "died_idle")
        child = _Child(self._config)
        try:
            async with asyncio.timeout(self._config.start_limit_seconds):
                await child.ready()
        except (TimeoutError, _ChildDiedError):
            self._end(child, "did_not_start")
            raise ImageError("decoder_crashed", "The decoder did not start.") from None
        except BaseException:
            self._end(child, "cancelled")
            raise
        return child

    def _give_back(self, child: "_Child", answer: dict[str, Any]) -> None:
        child.pictures += 1
        if answer.get("code") == "decoder_crashed":  # it lives, and nobody knows in what state
            self._end(child, "failed")
        elif (
            self._closed
            or child.pictures >= self._config.recycle_after_pictures
            or answer["rssBytes"] > self._config.recycle_above_bytes
        ):
            self._end(child, "recycled")
        else:
            self._idle.append(child)

    def _end(self, child: "_Child", reason: str) -> None:
        child.kill()
        self._ended = [ended for ended in [*self._ended, child] if ended.process.poll() is None]
        log = _log.debug if reason in ("closed", "recycled", "cancelled") else _log.warning
        log("decoder_ended", reason=reason, pid=child.process.pid, pictures=child.pictures)


class _ChildDiedError(Exception):
    """The child's end of the socket is closed."""


class _Child:
    """One process, and our end of its socket."""

    def __init__(self, config: DecoderConfig) -> None:
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
                    str(config.memory_limit_bytes),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                start_new_session=True,  # a terminal's Ctrl-C is for the parent
            )

    async def ready(self) -> None:
        """Wait until it can be asked. _ChildDiedError."""
        if await self._receive() != READY:
            raise _ChildDiedError

    async def take(self, descriptor: int) -> bool:
        """Hand it a file; false when it was dead already."""
        try:
            socket.send_fds(self._socket, [b"inspect"], [descriptor])
            return await self._receive() == TAKEN
        except (OSError, _ChildDiedError):
            return False

    async def answer(self) -> dict[str, Any]:
        """What it says about the file that it took. _ChildDiedError."""
        answer: dict[str, Any] = json.loads(await self._receive())
        return answer

    async def _receive(self) -> bytes:
        try:
            message = await asyncio.get_running_loop().sock_recv(self._socket, ANSWER_BYTES)
        except OSError as error:
            raise _ChildDiedError from error
        if not message:
            raise _ChildDiedError
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
