"""`demo:drill`: a processor that behaves as its input says. The shortest complete example, and what fault tests run.

Everything a processor can do is here once: take its time and notice that it is asked to stop (cancel), fail by kind and
attempt (retry), report progress, and make an effect in a transaction that cannot happen twice (idempotence).
"""

import asyncio
import os
import signal
import time
from typing import Annotated, Any, Literal

from pydantic import Field

from lingxi.processors.contract import (
    Context,
    Permanent,
    Processor,
    ProcessorInput,
    Transient,
)
from lingxi.services.record_drill import record_drill

Milliseconds = Annotated[int, Field(ge=0, le=600_000)]
Attempts = Annotated[int, Field(ge=0, le=10)]


class Input(ProcessorInput):
    """What to do, in this order. `…Times: n` means: in the first n attempts of a round."""

    duration_ms: Milliseconds = 0  # work: gives way to others, ends early when asked to stop
    block_ms: Milliseconds = 0  # bad work: holds up the whole event loop
    steps: Annotated[int, Field(ge=1, le=1000)] = 1  # progress reports over the duration
    hang: bool = False  # never ends by itself
    swallow_cancel: bool = False  # with a hang: ignores that it is cancelled
    crash: Literal["exit", "kill", "leak_cancel", "system_exit"] | None = None
    crash_times: Attempts = 10
    fail: Literal["transient", "permanent", "bug"] | None = None
    fail_code: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")] = "drill_failed"
    fail_message: Annotated[str, Field(max_length=500)] = "the drill was told to fail"
    fail_times: Attempts = 10
    effect: bool = False  # a row of its own, made in a transaction
    result_bytes: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    result_text: Annotated[str, Field(max_length=1000)] | None = None


async def run(context: Context, given: Input) -> dict[str, Any]:
    """Do as told; the result names the attempt that succeeded."""
    await _work(context, given)
    if given.crash and context.attempt.number <= given.crash_times:
        await _crash(given.crash)
    if given.fail and context.attempt.number <= given.fail_times:
        _fail(given)
    result: dict[str, Any] = {"attempt": context.attempt.number}
    if given.result_bytes:
        result["padding"] = "x" * given.result_bytes
    if given.result_text is not None:
        result["text"] = given.result_text
    if given.effect:
        async with context.transaction() as connection:  # commits only while this attempt owns the item
            result["first"] = await record_drill(
                connection, context.item.task_id, context.item.index + 1, context.attempt.id
            )
            context.succeed(result)  # … and the result with it: both or neither
    return result


async def _work(context: Context, given: Input) -> None:
    if given.block_ms:
        time.sleep(given.block_ms / 1000)  # noqa: ASYNC251  (the point of this drill)
    while given.hang:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if not given.swallow_cancel:
                raise
    for step in range(given.steps if given.duration_ms else 0):
        await asyncio.sleep(given.duration_ms / given.steps / 1000)
        context.progress(step + 1, given.steps)


async def _crash(kind: str) -> None:
    if kind == "exit":
        os._exit(137)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "system_exit":
        raise SystemExit(3)
    inner = asyncio.ensure_future(
        asyncio.sleep(3600)
    )  # leak_cancel: awaiting a cancelled task raises what looks like ours
    inner.cancel()
    await inner


def _fail(given: Input) -> None:
    if given.fail == "permanent":
        raise Permanent(given.fail_code, given.fail_message)
    if given.fail == "transient":
        raise Transient(given.fail_code, given.fail_message)
    raise RuntimeError(given.fail_message)


DRILL = Processor(
    name="demo:drill",
    input_model=Input,
    run=run,
    time_limit_seconds=900,
    concurrency=200,
    backoff_seconds=0.5,
)
