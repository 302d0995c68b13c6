"""Processors that write down what they did where Lingxi's tables cannot reach: the witness of the chaos runs.

Each writes two records of its own. A line in an append-only file, `O_APPEND` and one `write` a line, says that an attempt
began, and another that its effect was committed. A row in `chaos.effects`, a table that no statement of Lingxi names and
that has no key, is the effect itself: it is made in the attempt's transaction, so it can only be doubled by a commit.
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

from pydantic import Field

from lingxi.processors.contract import Context, Permanent, Processor, ProcessorInput, Transient
from lingxi.processors.outputs import Output, succeed_with

LEDGER_VARIABLE = "CHAOS_LEDGER"
_HOARD_STEP_MB = 20
Rounds = Annotated[int, Field(ge=0, le=9)]


class Work(ProcessorInput):
    """What the item does, in this order."""

    duration_ms: Annotated[int, Field(ge=0, le=60_000)] = 0
    fail_rounds: Rounds = 0  # fails for good in so many rounds
    fail_attempts: Rounds = 0  # fails, and may be tried again, in the first attempts of each round
    hold_ms: Annotated[int, Field(ge=0, le=60_000)] = 0  # inside the transaction of the effect
    hoard_mb: Annotated[int, Field(ge=0, le=4_000)] = 0  # memory, a bit at a time
    effect: bool = False  # the row and the result are one commit; else the worker's batch stores the result


class File(ProcessorInput):
    """An object that the item makes."""

    name: str


async def work(context: Context, given: Work) -> dict[str, int]:
    """Write down, wait, fail or take effect."""
    note("ran", context)
    await asyncio.sleep(given.duration_ms / 1000)
    hoard: list[bytes] = []
    while len(hoard) * _HOARD_STEP_MB < given.hoard_mb:
        hoard.append(os.urandom(_HOARD_STEP_MB << 20))
        await asyncio.sleep(0.02)
    if context.attempt.round <= given.fail_rounds:
        raise Permanent("chaos_refused", "It was told to fail in this round.")
    if context.attempt.number <= given.fail_attempts:
        raise Transient("chaos_not_yet", "It was told to fail in this attempt.")
    result = {"attempt": context.attempt.id}
    if given.effect:
        async with context.transaction() as connection:
            await connection.execute(
                "insert into chaos.effects (task_id, position, attempt_id) values ($1, $2, $3)",
                context.item.task_id,
                context.item.index + 1,
                context.attempt.id,
            )
            await asyncio.sleep(given.hold_ms / 1000)
            context.succeed(result)
        note("committed", context)
    return result


async def make_file(context: Context, given: File) -> None:
    """Store an object and end with it, in one commit."""
    note("ran", context)
    path = context.scratch() / "made"
    await asyncio.to_thread(path.write_text, given.name)
    await succeed_with(
        context,
        [Output(given.name, path, "text/plain")],
        lambda objects: {"made": sorted(objects), "attempt": context.attempt.id},
    )
    note("committed", context)


def note(what: str, context: Context) -> None:
    """One line, written at once and whole, whoever else writes."""
    line = f"{what} {context.item.task_id} {context.item.index + 1} {context.attempt.id} {os.getpid()}\n"
    file = os.open(os.environ[LEDGER_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


WORK = Processor("chaos:work", Work, work, max_attempts=3, concurrency=40, backoff_seconds=0.2)
FILE = Processor("chaos:file", File, make_file, max_attempts=5, concurrency=4, backoff_seconds=0.2)
