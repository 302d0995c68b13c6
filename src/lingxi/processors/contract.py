"""What a processor is, and what it is given: everything that somebody who writes one needs to import.

A processor does the work of one item. It is an async function `run(context, input)` and a few facts about it:

    class Input(ProcessorInput):
        name: str

    async def run(context: Context, given: Input) -> dict[str, object]:
        return {"hello": given.name}

    hello = Processor(name="demo:drill", input_model=Input, run=run)

It returns a result (a model, a dict or None; at most 64 kB of JSON), or raises `Permanent` (trying again cannot help),
`Transient` (it can), or anything else, which counts as transient with the code `internal_error`.

An item may run more than once: its worker can die after the work and before the result was stored. So effects inside
the database go through `context.transaction()`, and effects outside carry `context.idempotency_key`.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from lingxi.db.session import Connection
from lingxi.domain.errors import Permanent, Transient
from lingxi.domain.ids import item_id
from lingxi.observability.logging import get_logger

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

    task_id: uuid.UUID
    index: int
    ref: str | None
    workspace_id: uuid.UUID  # inputs may name objects of this workspace only

    @property
    def id(self) -> uuid.UUID:
        """The item's id on the wire."""
        return item_id(self.task_id, self.index + 1)


class Attempt(NamedTuple):
    """This try of the item: `id` is the fence that guards its result, `number` counts from 1 in each round."""

    id: int
    number: int
    round: int


class Tools(Protocol):
    """What a worker lends to every context of one queue."""

    @property
    def storage(self) -> Any:
        """Object storage; what it offers is fixed in `lingxi.storage`."""

    def transaction(self, item: Item, attempt: Attempt) -> AbstractAsyncContextManager[Connection]:
        """A transaction that commits only while `attempt` still owns `item`."""

    def publish_progress(self, item: Item, done: int, total: int | None, note: str | None) -> None:
        """Tell watchers; best effort."""


PROGRESS_INTERVAL_SECONDS = 0.2
MAX_NOTE_CHARACTERS = 200


class StopReason(StrEnum):
    """Why an attempt is asked to stop."""

    DEADLINE = "deadline"  # its time is over
    SHUTDOWN = "shutdown"  # its worker is being stopped
    LEASE_LOST = "lease_lost"  # somebody else has the item by now; a result would be refused


class Context:
    """One attempt, seen from its processor."""

    __slots__ = ("_log", "_progress_due", "_stopping", "_tools", "attempt", "deadline", "item", "stop_reason")

    def __init__(self, item: Item, attempt: Attempt, deadline: float, tools: Tools) -> None:
        self.item = item
        self.attempt = attempt
        self.deadline = deadline  # of time.monotonic(): the attempt is cancelled then
        self.stop_reason: StopReason | None = None
        self._tools = tools
        self._progress_due = 0.0
        self._stopping: asyncio.Event | None = None  # made when first looked at: most items never do
        self._log: structlog.typing.FilteringBoundLogger | None = None

    @property
    def stopping(self) -> asyncio.Event:
        """Set when the attempt should come to an end soon; `stop_reason` says why.

        While the worker is being stopped, whoever raises (anything but Permanent) gives the attempt back, uncharged.
        """
        if self._stopping is None:
            self._stopping = asyncio.Event()
            if self.stop_reason is not None:
                self._stopping.set()
        return self._stopping

    def ask_to_stop(self, reason: StopReason) -> None:
        """Set `stopping`; for the worker, on its event loop. The first reason stays, but a deadline overrules."""
        if self.stop_reason is None or reason is StopReason.DEADLINE:
            self.stop_reason = reason
        if self._stopping is not None:
            self._stopping.set()

    @property
    def storage(self) -> Any:
        """The object storage of this deployment."""
        return self._tools.storage

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt and every round of this item, so that a receiver outside can drop a repeat."""
        return str(self.item.id)

    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """A logger whose lines name the task, the item and the attempt."""
        if self._log is None:
            self._log = get_logger("processor").bind(
                task_id=str(self.item.task_id), item_id=str(self.item.id), attempt=self.attempt.number
            )
        return self._log

    def seconds_left(self) -> float:
        """Time until the deadline, in seconds; negative once it has passed."""
        return self.deadline - time.monotonic()

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """`async with context.transaction() as connection:` commits at its end, if this attempt still owns the item then.

        The item's row is locked last (lock order: album, photo, task, item). Raises Superseded, and rolls back, when
        somebody else has the item by now. A crash after this commit runs the item again, so make the effect one that
        can be repeated: a unique key, an `on conflict do nothing`.
        """
        return self._tools.transaction(self.item, self.attempt)

    def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Tell watchers how far this item is (`done` of `total`, in any unit): best effort, at most 5 a second."""
        now = time.monotonic()
        if now >= self._progress_due or done == total:
            self._progress_due = now + PROGRESS_INTERVAL_SECONDS
            self._tools.publish_progress(self.item, done, total, note and note[:MAX_NOTE_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Processor(Generic[InputT]):
    """The work of one queue, and its limits."""

    name: str  # the logical queue, one of names.QUEUES
    input_model: type[InputT]
    run: Callable[[Context, InputT], Awaitable[Result]]
    max_attempts: int = 3
    time_limit_seconds: float = 300.0
    concurrency: int = 4  # items at once in one worker process
    backoff_seconds: float = 2.0  # before the second attempt; doubles for each later one, with jitter
