"""What a child process does: `python -m MODULE FD MEMORY_BYTES FILE_BYTES`, whose main is `serve`.

FD is one end of a SEQPACKET socket. The child says `ready`, then takes one message a piece of work, which carries the
descriptors of open files, and says `taken`; it may say more in between; at last it answers in JSON. It ends as soon as the
other end is closed, also in the midst of its work: so that a parent that was killed leaves nobody behind.
"""

import contextlib
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from lingxi.sandbox.wire import GO, MESSAGE_BYTES, READY, TAKEN


class Parent:
    """Who is asked and told while the work goes on."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def tell(self, said: dict[str, Any]) -> None:
        """One message; BrokenPipeError when nobody is there any more."""
        self._connection.send(json.dumps(said).encode())

    def ask(self, said: dict[str, Any]) -> None:
        """Say it and wait until the work may go on."""
        self.tell(said)
        if self._connection.recv(MESSAGE_BYTES) != GO:
            raise BrokenPipeError


Answer = Callable[[Parent, bytes, list[int]], dict[str, Any]]


def serve(prepare: Callable[[], None], answer: Answer, *, max_descriptors: int) -> None:
    """Serve until the other end is closed. `prepare` runs once, under the limits: what it maps and starts counts too.

    Of what `answer` raises, MemoryError and whatever is no refusal become `decoder_crashed`.
    """
    descriptor, memory_bytes, file_bytes = (int(argument) for argument in sys.argv[1:4])
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the parent, which ends us in its own time
        signal.signal(number, signal.SIG_IGN)
    limit_resources(memory_bytes, file_bytes)
    with socket.socket(fileno=descriptor) as connection:
        threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
        logging.disable()  # libraries' remarks on hostile files; what matters is in the answer
        prepare()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent is gone
            connection.send(READY)
            while said := _next(connection, answer, max_descriptors):
                connection.send(json.dumps(said).encode())


def _next(connection: socket.socket, answer: Answer, max_descriptors: int) -> dict[str, Any] | None:
    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, max_descriptors)
    if not message:
        return None
    connection.send(TAKEN)
    try:
        return {**_guarded(answer, Parent(connection), message, descriptors), "rssBytes": _rss_bytes()}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _guarded(answer: Answer, parent: Parent, message: bytes, descriptors: list[int]) -> dict[str, Any]:
    try:
        return answer(parent, message, descriptors)
    except MemoryError:
        return {"code": "decoder_crashed", "detail": "Decoding took more memory than is allowed."}
    except BrokenPipeError:
        raise
    except Exception as error:
        return {"code": "decoder_crashed", "detail": f"The decoder failed ({type(error).__name__})."}


def limit_resources(memory_bytes: int, file_bytes: int) -> None:
    """Address space, and the size of a file that is written; no core dumps."""
    for what, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, file_bytes),
    ):
        resource.setrlimit(what, (value, value))


def _end_with_parent(connection: socket.socket) -> None:
    """In a thread: C code may run for long, and releases Python's lock meanwhile."""
    hung_up = select.poll()
    hung_up.register(connection.fileno(), 0)  # POLLHUP and POLLERR come unasked
    hung_up.poll()
    os._exit(0)


def _rss_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
