"""The process in which pictures are decoded: `python -m lingxi.imaging.child FD MEMORY_LIMIT_BYTES`.

FD is one end of a SEQPACKET socket. It says `ready`, then takes one message a picture, `inspect` or `variants`, which
carries the descriptor of an open file (and those of the variants to write), and says `taken`. Once it has read the header
it says how many bytes the pixels take, `{"neededBytes": n}`, and waits for `go`; then it answers in JSON. It ends as soon as
the other end is closed, also in the midst of a picture: so that a parent that was killed leaves nobody behind.
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
from dataclasses import asdict
from typing import Any

READY = b"ready"
TAKEN = b"taken"  # from here on a death is this picture's
GO = b"go"
INSPECT, VARIANTS = b"inspect", b"variants"
VARIANT_KINDS = ("browse", "thumb")  # in the order of their descriptors
ANSWER_BYTES = 1 << 16
MAX_VARIANT_BYTES = 32 << 20


def main() -> None:
    """Serve the socket until its other end is closed."""
    descriptor, memory_limit_bytes = int(sys.argv[1]), int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the parent, which ends us in its own time
        signal.signal(number, signal.SIG_IGN)
    _limit(memory_limit_bytes)
    with socket.socket(fileno=descriptor) as parent:
        threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
        logging.disable()  # libvips's remarks on hostile files; what matters is in the answer
        from lingxi.imaging import engine  # after the limits: what it maps and starts counts too

        engine.prepare()
        with contextlib.suppress(BrokenPipeError):
            parent.send(READY)
            while answer := _next(parent, engine):
                parent.send(json.dumps(answer).encode())


def _next(parent: socket.socket, engine: Any) -> dict[str, Any] | None:
    message, descriptors, _, _ = socket.recv_fds(parent, ANSWER_BYTES, 1 + len(VARIANT_KINDS))
    if not message:
        return None
    parent.send(TAKEN)
    try:
        return {**_answer(parent, engine, message, descriptors), "rssBytes": _rss_bytes()}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _answer(parent: socket.socket, engine: Any, what: bytes, descriptors: list[int]) -> dict[str, Any]:
    from lingxi.imaging.errors import ImageError

    def admit(needed_bytes: int) -> None:
        parent.send(json.dumps({"neededBytes": needed_bytes}).encode())
        if parent.recv(ANSWER_BYTES) != GO:
            raise BrokenPipeError

    source, *outputs = descriptors
    try:
        if what == INSPECT:
            return {"facts": asdict(engine.inspect(source, admit))}
        return {"made": engine.make_variants(source, dict(zip(VARIANT_KINDS, outputs, strict=True)), admit)}
    except ImageError as error:
        return {"code": error.code, "detail": error.detail}
    except MemoryError:
        return {"code": "decoder_crashed", "detail": "Decoding the picture took more memory than is allowed."}
    except BrokenPipeError:
        raise
    except Exception as error:
        return {"code": "decoder_crashed", "detail": f"The decoder failed ({type(error).__name__})."}


def _limit(memory_limit_bytes: int) -> None:
    for what, value in (
        (resource.RLIMIT_AS, memory_limit_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_VARIANT_BYTES),
    ):
        resource.setrlimit(what, (value, value))


def _end_with_parent(parent: socket.socket) -> None:
    """In a thread: the decoder's C code may run for long, and releases Python's lock meanwhile."""
    hung_up = select.poll()
    hung_up.register(parent.fileno(), 0)  # POLLHUP and POLLERR come unasked
    hung_up.poll()
    os._exit(0)


def _rss_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
