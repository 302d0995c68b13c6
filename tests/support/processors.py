"""Processors that behave as the tests need it; sync ones are imported by their children, so they live in a module."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from lingxi.processors.contract import (
    Context,
    Permanent,
    Processor,
    ProcessorInput,
    ProcessorResult,
    SyncContext,
    Transient,
)


class Text(ProcessorInput):
    """An object, and what to do with it."""

    object: str
    into: str | None = None


class Counted(ProcessorResult):
    """How many letters it has."""

    letter_count: int
    attempt: int


async def count(context: Context, given: Text) -> Counted:
    """Count the letters of an object and remember that in a table, with the result, in one commit."""
    fetched = await context.fetch_object(given.object)
    letters = len(await asyncio.to_thread(fetched.path.read_bytes))
    context.progress(1, 2, "read")
    if given.into is not None:
        copy = context.scratch() / "copy"
        await asyncio.to_thread(copy.write_bytes, fetched.path.read_bytes())
        await context.put_object(given.into, copy)
    result = Counted(letter_count=letters, attempt=context.attempt.number)
    async with context.transaction() as connection:
        await connection.execute(
            "insert into deployment (key, value) values ('counts', '1')"
            " on conflict (key) do update set value = (deployment.value::int + 1)::text"
        )
        context.succeed(result)
    return result


COUNT = Processor("letters:count", Text, count, result_model=Counted, max_attempts=3)


class Order(ProcessorInput):
    """What the child is told to do."""

    what: str
    number: int = 0


class Nameless(Transient):
    """Has neither a code nor a message."""

    def __init__(self) -> None:
        pass


def obey(context: SyncContext, given: Order) -> dict[str, Any] | None:
    """Everything that can be done, or go wrong, in a child."""
    first = context.attempt.number == 1
    match given.what:
        case "answer":
            return {"pid": os.getpid(), "attempt": context.attempt.number, "key": context.idempotency_key}
        case "environment":
            return {"names": sorted(os.environ)}
        case "die" if first or given.number:
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "quit":
            raise SystemExit(0)
        case "eat":
            return {"bytes": len(bytearray(given.number))}
        case "permanent":
            raise Permanent("no_good", "It is no good.")
        case "transient" if first:
            raise Transient("not_now", retry_after=0.25)
        case "bug":
            raise ZeroDivisionError("in the child")
        case "fork":  # and the fork holds open whatever it got
            if os.fork() == 0:
                signal.pause()
            os.kill(os.getpid(), signal.SIGKILL)
        case "fork-and-return":
            os.fork()
            context.progress(os.getpid())
            return {"pid": os.getpid(), "parent": os.getppid()}
        case "leave":
            return {"pid": os.getpid(), "left": subprocess.Popen(["sleep", "3600"]).pid}
        case "chatter":
            context.progress(1 << 80, None, "n" * 1_000_000)
            context.log.info("e" * 1_000_000, **{f"field_{number}": "\x01" * 10_000 for number in range(100)})
            context.progress(2, 3, "half of a pair: \ud800")
            return {"text": "я" * 32_000}
        case "unspeakable":
            raise Permanent("no_good", "\ud800" * 1_000_000)
        case "nameless":
            raise Nameless
        case "report":
            for done in range(given.number):
                context.progress(done + 1, given.number, "going on")
            context.log.info("child_said", number=given.number)
        case "copy":
            path = context.fetch_object("in.txt")
            copy = context.scratch() / "copy.txt"
            copy.write_text(path.read_text().upper())
            context.put_object("out.txt", copy)
            return {"scratch": str(context.scratch())}
        case "smuggle":
            context.put_object("theirs.txt", Path(__file__))
        case "pipe":
            os.mkfifo(context.scratch() / "pipe")
            context.put_object("never.txt", context.scratch() / "pipe")
        case "fill":
            for part in range(given.number):
                (context.scratch() / f"part-{part}").write_bytes(os.urandom(1 << 20))
            _until_stopped(context)
        case "wait":
            _until_stopped(context)
            context.stop_if_asked()
        case "notice":
            _until_stopped(context)
            return {"reason": context.stop_reason}
        case (
            "hang"
        ):  # what the test is about: only a kill ends it (`test_the_end_of_its_time_kills_the_child`)
            time.sleep(3600)
    return None


def _until_stopped(context: SyncContext) -> None:
    context.progress(1)
    context.stopping.wait(30)


OBEY = Processor(
    "child:obey", Order, obey, memory_bytes=512 << 20, scratch_bytes=4 << 20, time_limit_seconds=30.0, max_attempts=2,
    backoff_seconds=0.05,
)  # fmt: skip


def leftovers(root: Path) -> list[Path]:
    """Scratch folders of attempts that are still there."""
    return [path for owner in root.glob("*") for path in owner.glob("*") if not path.name.startswith(".")]
