"""What a processor is, and what it is given: everything that somebody who writes one needs to import.

A processor does the work of one item. It is an async function `run(context, input)` and a few facts about it:

    class Input(ProcessorInput):
        name: str

    async def run(context: Context, given: Input) -> dict[str, object]:
        return {"hello": given.name}

    hello = Processor(name="demo:drill", input_model=Input, run=run)

It returns a result (a model, a dict or None; at most 64 kB of JSON), or raises `Permanent` (trying again cannot help),
`Transient` (it can), or anything else, which counts as transient with the code `internal_error`.

An item may run more than once: its worker can die after the work and before the result was stored. So effects inside the
database go through `context.transaction()`, and effects outside carry `context.idempotency_key`.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from lingxi.db.session import Connection
from lingxi.domain.errors import Permanent, Transient

__all__ = [
    "Attempt",
    "Connection",
    "Context",
    "Item",
    "Permanent",
    "Processor",
    "ProcessorInput",
    "Result",
    "Tools",
    "Transient",
]


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


InputT = TypeVar("InputT", bound=BaseModel)
Result = BaseModel | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Item:
    """The item at hand. `index` counts from 0; `ref` is the client's own name for it."""

    id: uuid.UUID
    task_id: uuid.UUID
    index: int
    ref: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """This try of the item: `id` is the fence that guards its result, `number` counts from 1 in each round."""

    id: int
    number: int
    round: int


class Tools(Protocol):
    """What a worker lends to every context of one queue."""

    @property
    def storage(self) -> Any:
        """Object storage; what it offers is fixed in `lingxi.storage`."""

    def transaction(
        self, item: Item, attempt: Attempt
    ) -> AbstractAsyncContextManager[Connection]:
        """A transaction that commits only while `attempt` still owns `item`."""

    def publish_progress(
        self, item: Item, done: int, total: int | None, note: str | None
    ) -> None:
        """Tell watchers; best effort."""


class Context:
    """One attempt, seen from its processor."""

    __slots__ = (
        "_log",
        "_stop_asked",
        "_stopping",
        "_tools",
        "attempt",
        "deadline",
        "item",
    )

    def __init__(
        self, item: Item, attempt: Attempt, deadline: float, tools: Tools
    ) -> None:
        self.item = item
        self.attempt = attempt
        self.deadline = deadline  # of time.monotonic(): the attempt is cancelled then
        self._tools = tools
        self._stop_asked = False
        self._stopping: asyncio.Event | None = (
            None  # made when first looked at: most items never do
        )
        self._log: structlog.typing.FilteringBoundLogger | None = None

    @property
    def stopping(self) -> asyncio.Event:
        """Set when the worker is being stopped or the attempt has lost its lease: come to an end soon.

        Whoever then raises (CancelledError included) gives the attempt back and is charged nothing.
        """
        if self._stopping is None:
            self._stopping = asyncio.Event()
            if self._stop_asked:
                self._stopping.set()
        return self._stopping

    def ask_to_stop(self) -> None:
        """Set `stopping`; for the worker, on its event loop."""
        self._stop_asked = True
        if self._stopping is not None:
            self._stopping.set()

    @property
    def stop_asked(self) -> bool:
        """Has `stopping` been set?"""
        return self._stop_asked

    @property
    def storage(self) -> Any:
        """The object storage of this deployment."""
        return self._tools.storage

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt and every round of this item: effects outside carry it, so that a repeat can be dropped."""
        return str(self.item.id)

    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """A logger whose lines name the task, the item and the attempt."""
        if self._log is None:
            self._log = structlog.get_logger(
                logger="processor",
                task_id=str(self.item.task_id),
                item_id=str(self.item.id),
                attempt=self.attempt.number,
            )
        return self._log

    def seconds_left(self) -> float:
        """Time until the deadline, in seconds; negative once it has passed."""
        return self.deadline - time.monotonic()

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """`async with context.transaction() as connection:` commits at the end, and only if this attempt still owns the item.

        The item's row is locked last (lock order: album, photo, task, item). Raises Superseded, and rolls back, when somebody
        else has the item by now. A crash after this commit runs the item again, so make the effect one that can be
        repeated: a unique key, an `on conflict do nothing`.
        """
        return self._tools.transaction(self.item, self.attempt)

    def progress(
        self, done: int, total: int | None = None, note: str | None = None
    ) -> None:
        """Tell watchers how far this item is (`done` of `total`, in any unit); best effort, cheap, coalesced."""
        self._tools.publish_progress(self.item, done, total, note)


@dataclass(frozen=True, slots=True)
class Processor(Generic[InputT]):
    """The work of one queue, and its limits."""

    name: str  # the logical queue, one of names.QUEUES
    input_model: type[InputT]
    run: Callable[[Context, InputT], Awaitable[Result]]
    max_attempts: int = 3
    time_limit_seconds: float = 300.0
    concurrency: int = 4  # items at once in one worker process
    backoff_seconds: float = (
        2.0  # before the second attempt; doubles for each later one, with jitter
    )
