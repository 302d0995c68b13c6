"""Run one item: call its processor and say what happened, whatever it does. What becomes of that is decided elsewhere.

`observe` never raises, also when the processor raises SystemExit or leaks a CancelledError that nobody asked for: one
item must not end the loop that runs the others.
"""

import asyncio
import inspect
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from lingxi.domain.decide import Failed, GivenBack, Happening
from lingxi.domain.errors import ITEM_CODES, ItemError, Permanent
from lingxi.observability.logging import get_logger
from lingxi.processors.contract import Context, Processor, Stopped, StopReason
from lingxi.processors.isolated import Isolated, ProcessorBug
from lingxi.processors.results import encode_result
from lingxi.services.guard_attempt import Superseded

MAX_RETRY_AFTER_SECONDS: Final = 24 * 3600.0
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_log = get_logger("processors.runner")


class Runner:
    """Runs items of one processor: on this loop, or, when its `run` is a plain function, in children.

    `environment`: what such a child sees of ours.
    """

    def __init__(self, processor: Processor[Any], environment: Mapping[str, str] | None = None) -> None:
        if processor.run is None:
            raise ValueError(f"{processor.name} runs elsewhere")
        self._run: Any = processor.run
        self._result_model = processor.result_model
        self._parse = TypeAdapter(processor.input_model).validator.validate_json
        self._isolated = None if is_async(processor.run) else Isolated(processor, environment or {})

    async def observe(self, context: Context, input_json: str) -> Happening:
        """What happened to this attempt. Only the end of the process keeps it from answering."""
        try:
            given = self._parse(input_json)
        except ValidationError as error:
            return _input_refused(error)
        except BaseException as error:  # of a validator
            return _told(error, context)
        try:
            if self._isolated is not None:
                happening: Happening = await self._isolated.run(context, input_json)
            else:
                result = await self._run(context, given)
                happening = context.committed or encode_result(result, self._result_model)
        except BaseException as error:
            return _told(error, context)
        if context.stop_reason is StopReason.DEADLINE and context.committed is None:
            return Failed.with_code(
                "deadline_exceeded"
            )  # it swallowed the cancellation: too late is too late
        return happening

    async def close(self) -> None:
        """End the children, if there are any."""
        if self._isolated is not None:
            await self._isolated.close()


def is_async(run: object) -> bool:
    """Is it an `async def` (or a method or an object whose call is one)?"""
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(type(run).__call__)


def _told(error: BaseException, context: Context) -> Happening:
    try:
        return what_was_raised(error, context)
    except (
        Exception
    ) as broken:  # an exception that cannot even be asked what it is: no code, a wait that is no number
        broken.__cause__ = error
        _log_bug(broken, context)
        return Failed.with_code("internal_error")


def what_was_raised(error: BaseException, context: Context) -> Happening:
    """An exception of a processor, in view of what the worker had asked for."""
    if context.committed is not None:  # the item has ended already, with its effect
        if not isinstance(error, asyncio.CancelledError):
            _log_bug(error, context)
        return context.committed
    match error, context.stop_reason:
        case Permanent(), _:
            return _failed_by(error)
        case _, StopReason.SCRATCH_FULL:
            return Failed.with_code("scratch_full")
        case (_, StopReason.DEADLINE) | (Stopped(), StopReason.DEADLINE_NEAR):
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
    if isinstance(error, ProcessorBug):  # its traceback came with it
        context.log.error("processor_raised", traceback=str(error))
        return
    what = "cancellation_leaked" if isinstance(error, asyncio.CancelledError) else "processor_raised"
    context.log.error(what, exc_info=error)
