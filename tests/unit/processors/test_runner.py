"""What a processor did, in the words that are decided upon."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, field_validator

from lingxi.domain.decide import Failed, GivenBack, Happening, Succeeded
from lingxi.domain.errors import ItemError
from lingxi.processors.contract import Attempt, Context, Item, Permanent, Processor, StopReason, Transient
from lingxi.processors.demo_drill import Input
from lingxi.processors.results import MAX_RESULT_BYTES
from lingxi.processors.runner import Runner
from lingxi.services.guard_attempt import Superseded


class Answer(BaseModel):
    number: float = 1.5


def context() -> Context:
    item = Item(UUID(int=0x10000), 0, None, UUID(int=1))
    return Context(item, Attempt(1, 1, 1), math.inf, tools=None)  # type: ignore[arg-type]


async def observe(do: Callable[[Context], Any], input_json: str = "{}") -> Happening:
    async def run(given_context: Context, given: Input) -> Any:
        return do(given_context)

    return await Runner(Processor("demo:drill", Input, run)).observe(context(), input_json)


def raising(error: BaseException, reason: StopReason | None = None) -> Callable[[Context], Any]:
    def do(at: Context) -> Any:
        if reason is not None:
            at.ask_to_stop(reason)
        raise error

    return do


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        (None, None),
        ({}, "{}"),
        ({"größe": "😀"}, '{"größe":"😀"}'),
        ({"t": "\\u0000"}, '{"t":"\\\\u0000"}'),
        (Answer(), '{"number":1.5}'),
        ({"n": math.inf}, '{"n":null}'),
    ],
)
async def test_a_result_becomes_json(result: Any, stored: str | None) -> None:
    assert await observe(lambda _: result) == Succeeded(stored)


@pytest.mark.parametrize(
    "result",
    [
        "text",
        5,
        ["list"],
        {1: 2},
        {"o": object()},
        {"t": "\x00"},
        {"a": [{"\x00": 1}]},
        {"s": "\ud800"},
        {"n": 1 << 70},
    ],
)
async def test_what_cannot_be_stored_is_invalid(result: Any) -> None:
    assert await observe(lambda _: result) == Failed.with_code("result_invalid")


async def test_a_recursive_result_is_invalid() -> None:
    loop: dict[str, Any] = {}
    loop["itself"] = loop
    assert await observe(lambda _: loop) == Failed.with_code("result_invalid")


async def test_the_limit_counts_bytes() -> None:
    around = len('{"t":""}')
    fits = {"t": "x" * (MAX_RESULT_BYTES - around)}
    assert isinstance(await observe(lambda _: fits), Succeeded)
    assert await observe(lambda _: {"t": fits["t"] + "x"}) == Failed.with_code("result_too_large")
    assert await observe(lambda _: {"t": "é" * (MAX_RESULT_BYTES // 2)}) == Failed.with_code(
        "result_too_large"
    )


@pytest.mark.parametrize(
    ("error", "happening"),
    [
        (Permanent("too_large", "Too big."), Failed("too_large", "Too big.", False)),
        (Transient("drill_busy", "Later.", retry_after=7), Failed("drill_busy", "Later.", True, 7)),
        (Transient("drill_busy", "Later.", retry_after=math.nan), Failed("drill_busy", "Later.", True, None)),
        (Transient("drill_busy", "Later.", retry_after=-1), Failed("drill_busy", "Later.", True, 0.0)),
        (Transient("drill_busy", "Later.", retry_after=1e12), Failed("drill_busy", "Later.", True, 86_400.0)),
        (ItemError("neither", "Base."), Failed("neither", "Base.", False)),
        (RuntimeError("boom"), Failed.with_code("internal_error")),
        (SystemExit(3), Failed.with_code("internal_error")),
        (KeyboardInterrupt(), Failed.with_code("internal_error")),
        (asyncio.CancelledError(), Failed.with_code("internal_error")),
        (GeneratorExit(), Failed.with_code("internal_error")),
        (Superseded(), GivenBack()),
    ],
)
async def test_what_was_raised(error: BaseException, happening: Happening) -> None:
    assert await observe(raising(error)) == happening


class Nameless(Permanent):
    """Whose author did not call what he overrode."""

    def __init__(self) -> None:
        pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no word")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error",
    [
        Nameless(),
        Speechless(),
        Transient("not_now", retry_after="soon"),  # type: ignore[arg-type]
        Transient("not_now", retry_after=timedelta(seconds=3)),  # type: ignore[arg-type]
        ExceptionGroup("several", [ValueError("one"), Speechless()]),
    ],
)
async def test_an_exception_that_cannot_be_asked_what_it_is(error: Exception) -> None:
    assert await observe(raising(error)) == Failed.with_code("internal_error")


@pytest.mark.parametrize("code", ["", "Has Space", "ünï", "x" * 65, 5, None])
async def test_a_malformed_code_is_an_internal_error(code: Any) -> None:
    happening = await observe(raising(Permanent(code, "Something.")))
    assert isinstance(happening, Failed)
    assert (happening.code, happening.retryable) == ("internal_error", False)


@pytest.mark.parametrize("error", [Transient("drill_busy"), RuntimeError(), asyncio.CancelledError()])
async def test_a_stop_excuses_what_may_pass(error: BaseException) -> None:
    assert await observe(raising(error, StopReason.SHUTDOWN)) == GivenBack()
    assert await observe(raising(error, StopReason.LEASE_LOST)) == GivenBack()
    assert await observe(raising(error, StopReason.DEADLINE)) == Failed.with_code("deadline_exceeded")


async def test_a_stop_excuses_nothing_permanent() -> None:
    assert await observe(raising(Permanent("too_large", "Big."), StopReason.SHUTDOWN)) == Failed(
        "too_large", "Big.", False
    )


async def test_a_result_after_the_deadline_is_too_late() -> None:
    assert await observe(lambda at: at.ask_to_stop(StopReason.DEADLINE)) == Failed.with_code(
        "deadline_exceeded"
    )
    assert await observe(lambda at: at.ask_to_stop(StopReason.SHUTDOWN)) == Succeeded(None)


async def test_an_input_of_another_schema_is_refused() -> None:
    happening = await observe(lambda _: None, '{"durationMs": "soon"}')
    assert isinstance(happening, Failed)
    assert (happening.code, happening.retryable) == ("input_invalid", False)
    assert "durationMs" in happening.message


class Fussy(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _look(cls, value: int) -> int:
        return {1: 1}[value]


async def test_a_validator_that_fails_is_an_internal_error() -> None:
    async def run(at: Context, given: Fussy) -> None:
        return None

    runner = Runner(Processor("demo:drill", Fussy, run))
    assert await runner.observe(context(), '{"number": 2}') == Failed.with_code("internal_error")


async def test_stopping_can_be_looked_at_before_and_after() -> None:
    early, late = context(), context()
    event = early.stopping
    assert not event.is_set()
    for one in (early, late):
        one.ask_to_stop(StopReason.SHUTDOWN)
    assert event.is_set()
    assert late.stopping.is_set()
    late.ask_to_stop(StopReason.LEASE_LOST)
    assert late.stop_reason is StopReason.SHUTDOWN
    late.ask_to_stop(StopReason.DEADLINE)
    assert late.stop_reason is StopReason.DEADLINE
