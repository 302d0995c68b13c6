"""Runs a sync processor in children that can be killed: one item a child at a time, so that a crash, a hang or a greedy
allocation costs only the item that caused it.

A child is kept for the next item of its processor. It has the processor's memory limit, no servers and no secrets; what it needs
from them it asks for, and the worker does it in the item's name, behind its fence.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lingxi.domain.decide import Failed, Succeeded
from lingxi.domain.errors import ITEM_CODES, ItemError, Permanent, Transient
from lingxi.observability.logging import get_logger
from lingxi.processors.contract import Context, Processor, Stopped
from lingxi.processors.wire import MESSAGE_BYTES, encoded
from lingxi.sandbox.host import Child, ChildDiedError, ChildLimits

_START_SECONDS = 60.0
_ITEMS_PER_CHILD = 500
_LEVELS = ("debug", "info", "warning", "error")
_log = get_logger("processors.isolated")


class ProcessorBug(Exception):
    """The processor raised something of its own; the text is its traceback in the child."""


class ProcessorChild(Child):
    """One process, and how many items it has run."""

    message_bytes = MESSAGE_BYTES

    def __init__(self, limits: ChildLimits, environment: Mapping[str, str]) -> None:
        super().__init__("lingxi.processors.child", limits, environment)
        self.items = 0

    async def hear(self) -> dict[str, Any]:
        """The next thing that it says. ChildDiedError."""
        return dict(json.loads(await self._receive()))

    def tell(self, said: dict[str, Any]) -> None:
        """Say something; a child that is dead is noticed when it is listened to."""
        try:
            self._socket.send(encoded(said))
        except OSError:
            pass


class Isolated:
    """The children of one processor in one worker. Belongs to one event loop."""

    def __init__(self, processor: Processor[Any], environment: Mapping[str, str]) -> None:
        self._limits = ChildLimits(processor.memory_bytes, processor.scratch_bytes)
        self._environment = dict(environment)
        run: Any = processor.run
        given, result = processor.input_model, processor.result_model
        self._job = {
            "module": run.__module__,
            "function": run.__qualname__,
            "input": [given.__module__, given.__qualname__],
            "result": [result.__module__, result.__qualname__] if result is not None else None,
        }
        self._idle: list[ProcessorChild] = []
        self._ended: list[ProcessorChild] = []

    async def run(self, context: Context, input_json: str) -> Succeeded | Failed:
        """What became of the item. Raises what the processor raised; cancelling kills the child."""
        while True:
            child = await self._take()
            try:
                answer = await self._serve(child, context, input_json)
            except ChildDiedError:
                how = await asyncio.to_thread(child.how_it_ended)
                self._end(child)
                context.log.warning("processor_crashed", how=how)
                return Failed("crashed", f"The processor's process died ({how}).", True)
            except BaseException:
                self._end(child)
                raise
            if answer is not None:
                self._give_back(child)
                return _outcome(answer)
            self._end(child)  # it had died before it took the item, which then is not to blame

    async def close(self) -> None:
        """End all children and wait for them."""
        while self._idle:
            self._end(self._idle.pop())
        for child in self._ended:
            await asyncio.to_thread(child.process.wait)
        self._ended.clear()

    async def _serve(self, child: ProcessorChild, context: Context, input_json: str) -> dict[str, Any] | None:
        item, attempt = context.item, context.attempt
        job = {
            **self._job,
            "text": input_json,
            "task": str(item.task_id),
            "index": item.index,
            "ref": item.ref,
            "workspace": str(item.workspace_id),
            "attempt": list(attempt),
            "seconds": min(context.seconds_left(), 1e9),
        }
        if not await child.take(encoded({"run": job}), []):
            return None
        stop = asyncio.create_task(self._pass_on_stop(child, context))
        try:
            while True:
                said = await child.hear()
                if "progress" in said:
                    context.progress(*said["progress"])
                elif "log" in said:
                    level, event, fields = said["log"]
                    _write(context, str(level), str(event), fields)
                elif "ask" in said:
                    child.tell(await _answer(context, said))
                else:
                    return said
        finally:
            stop.cancel()

    async def _pass_on_stop(self, child: ProcessorChild, context: Context) -> None:
        await context.stopping.wait()
        if context.stop_reason is not None:
            child.tell({"stop": context.stop_reason.value})

    async def _take(self) -> ProcessorChild:
        while self._idle:
            child = self._idle.pop()
            if child.process.poll() is None:
                return child
            self._end(child)
        child = ProcessorChild(self._limits, self._environment)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await child.ready()
        except (TimeoutError, ChildDiedError):
            self._end(child)
            raise Transient("crashed", "The processor's process did not start.") from None
        except BaseException:
            self._end(child)
            raise
        return child

    def _give_back(self, child: ProcessorChild) -> None:
        child.items += 1
        if child.items >= _ITEMS_PER_CHILD:
            self._end(child)
        else:
            self._idle.append(child)

    def _end(self, child: ProcessorChild) -> None:
        child.kill()
        self._ended = [one for one in [*self._ended, child] if one.process.poll() is None]


def _outcome(answer: dict[str, Any]) -> Succeeded:
    if "result" in answer:
        return Succeeded(answer["result"])
    if "stopped" in answer:
        raise Stopped
    if "bug" in answer:
        raise ProcessorBug(answer["bug"])
    code, message, retryable, wait = answer["error"]
    raise (Transient if retryable else Permanent)(code, message, retry_after=wait)


async def _answer(context: Context, question: dict[str, Any]) -> dict[str, Any]:
    """What the child asked for, or why not. A bug of ours goes to the processor's caller, not to the child."""
    try:
        match question["ask"]:
            case "scratch":
                return {"value": str(context.scratch())}
            case "fetch_object":
                return {"value": str((await context.fetch_object(str(question["name"]))).path)}
            case "put_object":
                await context.put_object(str(question["name"]), _in_scratch(context, question["path"]))
                return {"value": None}
    except ItemError as error:
        return {"code": error.code, "message": error.message, "retryable": error.retryable,
                "retryAfter": error.retry_after}  # fmt: skip
    except Exception as error:
        context.log.error("processor_request_failed", asked=str(question["ask"]), exc_info=error)
    code = ITEM_CODES["internal_error"]
    return {"code": "internal_error", "message": code.sentence, "retryable": code.retryable}


def _in_scratch(context: Context, path: str) -> Path:
    """A file as the worker opens it, which may read more than the child."""
    real = Path(path).resolve()
    if not real.is_relative_to(context.scratch().resolve()):
        raise ValueError("a child stores files of its scratch folder only")
    return real


def _write(context: Context, level: str, event: str, fields: Any) -> None:
    if level in _LEVELS and isinstance(fields, dict):
        names = {
            f"field_{name}" if name in ("event", "exc_info") else str(name): v for name, v in fields.items()
        }
        getattr(context.log, level)(event, **names)
