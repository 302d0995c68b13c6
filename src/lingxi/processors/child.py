"""The process in which a sync processor runs: `python -m lingxi.processors.child FD MEMORY_BYTES FILE_BYTES`.

FD is one end of a SEQPACKET socket. The child says `ready`, then takes one JSON message an item and says `taken`; while
`run` works on the main thread, another reads what the worker says: `{"stop": reason}`, or the answer to a question. It ends
as soon as the other end is closed, with whatever `run` has started, so a worker that was killed leaves nobody behind. What
`run` forks is not heard: two who speak would be taken for one.
"""

import ctypes
import importlib
import json
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from functools import reduce
from typing import Any, Final
from uuid import UUID

from pydantic import TypeAdapter

from lingxi.domain.decide import Succeeded, clean
from lingxi.domain.errors import ItemError
from lingxi.processors.context import Attempt, Item, Stopped, StopReason
from lingxi.processors.results import encode_result
from lingxi.processors.sync_context import Answered, SyncContext
from lingxi.processors.wire import MESSAGE_BYTES, encoded
from lingxi.sandbox.guest import limit_resources
from lingxi.sandbox.wire import READY, TAKEN

_PROGRESS_SECONDS = (
    0.02  # of many words in so short a time the last one goes to the worker, which coalesces further
)
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve the socket until its other end is closed."""
    descriptor, memory_bytes, file_bytes = (int(argument) for argument in sys.argv[1:4])
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the worker, which ends us in its own time
        signal.signal(number, signal.SIG_IGN)
    # for code that never lets another thread run; else the end of the connection tells
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    sys.stdout = sys.stderr  # what a processor prints is a part of the worker's log
    limit_resources(memory_bytes, file_bytes)
    with socket.socket(fileno=descriptor) as connection:
        connection.set_inheritable(False)
        os.register_at_fork(after_in_child=connection.close)  # whoever holds it open keeps our death a secret
        Child(connection).serve()


class Child:
    """Both threads of the child, and what they share."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._progress: list[Any] | None = None
        self._progress_sent_at = 0.0
        self._context: SyncContext | None = None

    def serve(self) -> None:
        """On the main thread, until the end of the process."""
        threading.Thread(target=self._listen, daemon=True).start()
        self._connection.send(READY)
        while True:
            self._send(self._run(self._jobs.get()))
            if os.getpid() != self._pid:  # `run` has forked, and both returned
                os._exit(0)

    # ── the listening thread ─────────────────────────────────────────────────────────────────────────────
    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN)
        while True:
            if poll.poll(
                None if self._progress is None and self._context is None else _PROGRESS_SECONDS * 1000
            ):
                message = self._connection.recv(MESSAGE_BYTES)
                if not message:
                    _end_all()
                self._heard(json.loads(message))
            self._flush_progress()

    def _heard(self, said: dict[str, Any]) -> None:
        if "run" in said:
            self._connection.send(TAKEN)
            self._jobs.put(said["run"])
        elif "stop" in said:
            if (context := self._context) is not None:
                context.stop_reason = StopReason(said["stop"])
                context.stopping.set()
        else:
            self._answers.put(said)

    # ── the item ─────────────────────────────────────────────────────────────────────────────────────────
    def _run(self, job: dict[str, Any]) -> dict[str, Any]:
        try:
            run = _named(job["module"], job["function"])
            model = _named(*job["input"])
            result_model = _named(*job["result"]) if job["result"] else None
            given = TypeAdapter(model).validate_json(job["text"])
            context = self._context = self._new_context(job)
            outcome = encode_result(run(context, given), result_model)
        except ItemError as error:
            return _failed(error)
        except Stopped:
            return {"stopped": True}
        except MemoryError:
            return {"error": ["out_of_memory", None, False, None]}
        except BaseException as error:
            return _bug(error)
        finally:
            self._flush_progress(now=True)
            self._context = None
        if isinstance(outcome, Succeeded):
            return {"result": outcome.result}
        return {"error": [outcome.code, outcome.message, outcome.retryable, None]}

    def _new_context(self, job: dict[str, Any]) -> SyncContext:
        """Threads that `run` leaves behind say and ask nothing in the name of the next item."""

        def tell(said: dict[str, Any]) -> None:
            if self._context is made:
                self._tell(said)

        def ask(question: dict[str, Any]) -> Answered:
            if self._context is not made:
                raise RuntimeError("the item has ended")
            return self._ask(question)

        item = Item(UUID(job["task"]), job["index"], job["ref"], UUID(job["workspace"]))
        made = SyncContext(item, Attempt(*job["attempt"]), job["seconds"], tell, ask)
        return made

    # ── to the worker ────────────────────────────────────────────────────────────────────────────────────
    def _tell(self, said: dict[str, Any]) -> None:
        if "progress" in said:
            self._progress = said["progress"]
            self._flush_progress()
        else:
            self._send(said)

    def _ask(self, question: dict[str, Any]) -> Answered:
        if os.getpid() != self._pid:
            raise RuntimeError("only the process that `run` was called in can ask its worker")
        with self._asking:
            self._send(question)
            return Answered(self._answers.get())

    def _flush_progress(self, *, now: bool = False) -> None:
        waiting = self._progress
        if waiting is not None and (now or time.monotonic() - self._progress_sent_at >= _PROGRESS_SECONDS):
            self._progress = None
            self._progress_sent_at = time.monotonic()
            self._send({"progress": waiting})

    def _send(self, said: dict[str, Any]) -> None:
        if os.getpid() != self._pid:
            return
        message = encoded(said)
        if len(message) > MESSAGE_BYTES:
            raise ValueError(f"more than {MESSAGE_BYTES} bytes cannot be said to the worker at once")
        try:
            self._connection.send(message)
        except BrokenPipeError:
            _end_all()


def _failed(error: ItemError) -> dict[str, Any]:
    try:
        wait = None if error.retry_after is None else float(error.retry_after)
        return {"error": [str(error.code)[:100], clean(str(error.message)), error.retryable, wait]}
    except Exception as broken:  # an exception that cannot even be asked what it is
        return _bug(broken)


def _bug(error: BaseException) -> dict[str, Any]:
    return {"bug": "".join(traceback.format_exception(error))[-20_000:]}


def _end_all() -> None:
    """This process and all that `run` has started: the group is our own."""
    os.killpg(0, signal.SIGKILL)


def _named(module: str, path: str) -> Any:
    return reduce(getattr, path.split("."), importlib.import_module(module))


if __name__ == "__main__":
    main()
