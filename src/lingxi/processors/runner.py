"""Run one item: call its processor and say what happened, whatever it does. What becomes of that is decided elsewhere.

`observe` never raises, also when the processor raises SystemExit or leaks a CancelledError that nobody asked for: one
item must not end the loop that runs the others.
"""

import asyncio
import math
import re
from typing import Any, Final

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from lingxi.domain.decide import Failed, GivenBack, Happening, Succeeded
from lingxi.domain.errors import ITEM_CODES, ItemError, Permanent
from lingxi.observability.logging import get_logger
from lingxi.processors.contract import Context, Processor, StopReason
from lingxi.services.guard_attempt import Superseded

MAX_RESULT_BYTES: Final = 64 * 1024
MAX_RETRY_AFTER_SECONDS: Final = 24 * 3600.0
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_log = get_logger("processors.runner")


class Runner:
    """Runs items of one processor."""

    def __init__(self, processor: Processor[Any]) -> None:
        self._run = processor.run
        self._parse = TypeAdapter(processor.input_model).validator.validate_json

    async def observe(self, context: Context, input_json: str) -> Happening:
        """What happened to this attempt. Only the end of the process keeps it from answering."""
        try:
            given = self._parse(input_json)
        except ValidationError as error:
            return _input_refused(error)
        try:
            result = await self._run(context, given)
        except BaseException as error:
            return what_was_raised(error, context)
        if context.stop_reason is StopReason.DEADLINE:  # it swallowed the cancellation: too late is too late
            return Failed.with_code("deadline_exceeded")
        return what_was_returned(result)


def what_was_raised(error: BaseException, context: Context) -> Happening:
    """An exception of a processor, in view of what the worker had asked for."""
    match error, context.stop_reason:
        case Permanent(), _:
            return _failed_by(error)
        case _, StopReason.DEADLINE:
            return Failed.with_code("deadline_exceeded")
        case _, StopReason.SHUTDOWN | StopReason.LEASE_LOST:  # the stop may be its cause: charge nothing
            return GivenBack()
        case Superseded(), _:
            return GivenBack()
        case ItemError(), _:
            return _failed_by(error)
        case _:
            _log_bug(error, context)
            return Failed.with_code("internal_error")


def what_was_returned(result: object) -> Happening:
    """A result as JSON text that PostgreSQL can hold, or why there is none."""
    try:
        encoded = _encode(result)
    except (TypeError, ValueError, RecursionError):  # orjson's and pydantic's errors are among these
        return Failed.with_code("result_invalid")
    if encoded is None:
        return Succeeded(None)
    if len(encoded) > MAX_RESULT_BYTES:
        return Failed.with_code("result_too_large")
    if b"\\u0000" in encoded and _has_nul(orjson.loads(encoded)):
        return Failed.with_code("result_invalid")
    return Succeeded(encoded.decode())


def _encode(result: object) -> bytes | None:
    if result is None:
        return None
    if isinstance(result, BaseModel):
        return result.__pydantic_serializer__.to_json(result, by_alias=True)
    if isinstance(result, dict):
        return orjson.dumps(result)
    raise TypeError("a result is a model, a dict or None")


def _has_nul(value: object) -> bool:
    match value:
        case str():
            return "\x00" in value
        case list():
            return any(map(_has_nul, value))
        case dict():
            return any(_has_nul(key) or _has_nul(inner) for key, inner in value.items())
        case _:
            return False


def _input_refused(error: ValidationError) -> Failed:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "input"
    return Failed("input_invalid", f"{place}: {first['msg']}", False)


def _failed_by(error: ItemError) -> Happening:
    code, wait = error.code, error.retry_after
    if not isinstance(code, str) or not _CODE.match(code):
        _log.error("item_code_malformed", code=repr(code)[:100])
        return Failed("internal_error", ITEM_CODES["internal_error"].sentence, error.retryable)
    if wait is not None:
        wait = min(max(wait, 0.0), MAX_RETRY_AFTER_SECONDS) if math.isfinite(wait) else None
    return Failed(code, str(error.message), error.retryable, wait)


def _log_bug(error: BaseException, context: Context) -> None:
    what = "cancellation_leaked" if isinstance(error, asyncio.CancelledError) else "processor_raised"
    context.log.error(what, exc_info=error)
