"""What a processor is, and what it is given: everything that somebody who writes one needs to import.

A processor does the work of one item. It is a function `run(context, input)` and a few facts about it:

    class Input(ProcessorInput):
        name: str

    async def run(context: Context, given: Input) -> dict[str, object]:
        return {"hello": given.name}

    hello = Processor(name="demo:hello", input_model=Input, run=run)

It returns a result (a model, a dict or None; at most 64 kB of JSON), or raises `Permanent` (trying again cannot help),
`Transient` (it can), or anything else, which counts as transient with the code `internal_error`. An `async def run`
shares the worker's event loop; a plain `def run` gets a `SyncContext` and a child process of its own, which has the
processor's memory limit and can be killed at any moment.

An item may run more than once: its worker can die after the work and before the result was stored. So effects inside
the database go through `context.transaction()`, best with `context.succeed(result)` inside, and effects outside carry
`context.idempotency_key`. `docs/processors/writing-your-own.md` shows all of it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from lingxi.db.session import Connection
from lingxi.domain.errors import Permanent, Transient
from lingxi.processors.context import (
    Attempt,
    Context,
    FetchedObject,
    Item,
    Stopped,
    StopReason,
    Tools,
)
from lingxi.processors.results import Result
from lingxi.processors.sync_context import SyncContext

__all__ = [
    "Attempt",
    "Connection",
    "Context",
    "FetchedObject",
    "Item",
    "Permanent",
    "Processor",
    "ProcessorInput",
    "ProcessorResult",
    "Result",
    "StopReason",
    "Stopped",
    "SyncContext",
    "Tools",
    "Transient",
]

GIBIBYTE: Final = 1 << 30


class ProcessorInput(BaseModel):
    """Base of inputs: camelCase on the wire, unknown fields and loose types ("5" for 5) refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        frozen=True,
        validate_by_name=False,
        validate_by_alias=True,
    )


class ProcessorResult(BaseModel):
    """Base of results: camelCase on the wire, made with Python's names."""

    model_config = ConfigDict(
        alias_generator=to_camel, frozen=True, validate_by_name=True, validate_by_alias=True
    )


InputT = TypeVar("InputT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Processor(Generic[InputT]):
    """The work of one queue, and its limits."""

    name: str  # the logical queue, `<domain>:<verb>`
    input_model: type[InputT]
    # None: no worker of ours serves the queue; workers in other languages do, over HTTP
    run: Callable[[Context, InputT], Awaitable[Result]] | Callable[[SyncContext, InputT], Result] | None
    max_attempts: int = 3
    time_limit_seconds: float = 300.0
    concurrency: int = 4  # items at once in one worker process
    backoff_seconds: float = 2.0  # before the second attempt; doubles for each later one, with jitter
    result_model: type[BaseModel] | None = None  # what a result has to be, and what OpenAPI shows
    memory_bytes: int = 2 * GIBIBYTE  # address space of the child that a sync `run` gets
    scratch_bytes: int = 4 * GIBIBYTE  # on disk in `context.scratch()`
    priority: Literal["live", "normal", "bulk"] = "normal"  # of a submission that names none
    group: str | None = None  # of its queue, for `QUEUE`; the domain when None


AnyProcessor = Processor[Any]
