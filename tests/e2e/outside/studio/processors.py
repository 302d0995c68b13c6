"""Processors of somebody else's package: nothing in Lingxi names them."""

import asyncio
import os
import signal
import time

from lingxi.processors.contract import (
    Context,
    Processor,
    ProcessorInput,
    ProcessorResult,
    SyncContext,
    Transient,
)


class Letters(ProcessorInput):
    """Which object to count the letters of, and what goes wrong in the first attempts."""

    object: str
    kills_worker: int = 0  # so many attempts end with their worker
    busy: int = 0  # so many attempts fail for now


class Counted(ProcessorResult):
    """How many there are, and which attempt found that out."""

    letters: int
    attempt: int


async def count(context: Context, given: Letters) -> Counted:
    fetched = await context.fetch_object(given.object)
    letters = len(await asyncio.to_thread(fetched.path.read_text))
    context.progress(1, 1, "counted")
    if context.attempt.number <= given.kills_worker:
        os.kill(os.getpid(), signal.SIGKILL)
    if context.attempt.number <= given.busy:
        raise Transient("not_in_the_mood", retry_after=0.1)
    return Counted(letters=letters, attempt=context.attempt.number)


class Shout(ProcessorInput):
    """Which object to write in capitals, and under which name."""

    object: str
    into: str
    crashes: int = 0


def shout(context: SyncContext, given: Shout) -> dict[str, object]:
    text = context.fetch_object(given.object).read_text()
    if context.attempt.number <= given.crashes:
        os.kill(os.getpid(), signal.SIGSEGV)
    loud = context.scratch() / "loud"
    loud.write_text(text.upper())
    context.put_object(given.into, loud)
    return {"attempt": context.attempt.number, "worker": os.getppid()}


class Talk(ProcessorInput):
    """Words in pairs, of which the second has to wait; then as many as can be said for so long."""

    pairs: int
    chatter_seconds: float


async def talk(context: Context, given: Talk) -> None:
    for _ in range(given.pairs):
        context.progress(0, note=str(time.time()))
        await asyncio.sleep(0.02)
        context.progress(1, note=str(time.time()))
        await asyncio.sleep(0.6)
    until = time.monotonic() + given.chatter_seconds
    while time.monotonic() < until:
        context.progress(2, note=str(time.time()))
        await asyncio.sleep(0.01)


def talk_in_a_child(context: SyncContext, given: Talk) -> None:
    for _ in range(given.pairs):
        context.progress(0, note=str(time.time()))
        context.stopping.wait(0.02)  # a sleep that a stop ends
        context.progress(1, note=str(time.time()))
        context.stopping.wait(0.6)  # a sleep that a stop ends
    until = time.monotonic() + given.chatter_seconds
    while time.monotonic() < until:
        context.progress(2, note=str(time.time()))
        context.stopping.wait(0.01)  # a sleep that a stop ends


COUNT = Processor("studio:letters", Letters, count, result_model=Counted, backoff_seconds=0.1)
SHOUT = Processor("studio:shout", Shout, shout, memory_bytes=1 << 30, backoff_seconds=0.1)
TALK = Processor("studio:talk", Talk, talk)
TALK_IN_A_CHILD = Processor("studio:talk-in-a-child", Talk, talk_in_a_child)
