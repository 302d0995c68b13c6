"""Two processors of somebody else's package: nothing in Lingxi names them."""

import asyncio
import os
import signal

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


COUNT = Processor("studio:letters", Letters, count, result_model=Counted, backoff_seconds=0.1)
SHOUT = Processor("studio:shout", Shout, shout, memory_bytes=1 << 30, backoff_seconds=0.1)
