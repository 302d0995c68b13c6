"""One attempt, seen from its processor: which item it is, what is left of its time, and what may be done in its name."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog
from pydantic import BaseModel

from lingxi.db.session import Connection
from lingxi.domain.decide import Failed, Succeeded
from lingxi.domain.errors import Permanent
from lingxi.domain.ids import item_id
from lingxi.observability.logging import get_logger
from lingxi.processors.progress import Progress
from lingxi.processors.results import Result, encode_result
from lingxi.services.get_object import StoredObject
from lingxi.storage import Storage


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


@dataclass(frozen=True, slots=True)
class FetchedObject:
    """An object of the workspace as a file in the attempt's scratch folder; its SHA-256 was checked."""

    path: Path
    stored: StoredObject


class Tools(Protocol):
    """What a worker lends to every context of one queue."""

    @property
    def storage(self) -> Storage:
        """Object storage."""

    def transaction(
        self, item: Item, attempt: Attempt, result: Callable[[], Succeeded | None]
    ) -> AbstractAsyncContextManager[Connection]:
        """A transaction that commits only while `attempt` still owns `item`; with a `result` at its end it ends the item."""

    def publish_progress(self, item: Item, done: int, total: int | None, note: str | None) -> None:
        """Tell watchers; best effort."""

    def new_scratch(self, attempt: Attempt) -> Path:
        """A new folder."""

    async def fetch_object(self, context: "Context", name: str) -> FetchedObject:
        """Copy an object of the item's workspace into the attempt's scratch folder."""

    async def put_object(self, context: "Context", name: str, path: Path) -> StoredObject:
        """Store a file as an object of the item's workspace."""


class StopReason(StrEnum):
    """Why an attempt is asked to stop."""

    DEADLINE_NEAR = "deadline_near"  # it will be cancelled soon; a result is still welcome
    DEADLINE = "deadline"  # its time is over
    SHUTDOWN = "shutdown"  # its worker is being stopped
    LEASE_LOST = "lease_lost"  # somebody else has the item by now; a result would be refused
    SCRATCH_FULL = "scratch_full"  # its folder has grown over its limit


_WEIGHT = {reason: weight for weight, reason in enumerate(StopReason)}
_WEIGHT |= {StopReason.SHUTDOWN: 1, StopReason.LEASE_LOST: 1, StopReason.SCRATCH_FULL: 1}
_WEIGHT[StopReason.DEADLINE] = 2


class Stopped(Exception):
    """Raised by `stop_if_asked`: the processor gives up because it was asked to."""


class Context:
    """One attempt, seen from its processor. Belongs to the event loop; only `progress` and `log` bear other threads."""

    __slots__ = (
        "_in_transaction",
        "_log",
        "_pending",
        "_progress",
        "_result_model",
        "_scratch",
        "_stopping",
        "_tools",
        "attempt",
        "committed",
        "deadline",
        "item",
        "stop_reason",
    )

    def __init__(
        self,
        item: Item,
        attempt: Attempt,
        deadline: float,
        tools: Tools,
        result_model: type[BaseModel] | None = None,
    ) -> None:
        self.item = item
        self.attempt = attempt
        self.deadline = deadline  # of time.monotonic(): the attempt is cancelled then
        self.stop_reason: StopReason | None = None
        self.committed: Succeeded | None = None  # by a transaction of the processor: the item has ended
        self._tools = tools
        self._result_model = result_model
        self._in_transaction = False
        self._pending: Succeeded | None = None
        self._stopping: asyncio.Event | None = None  # made when first looked at: most items never do
        self._log: structlog.typing.FilteringBoundLogger | None = None
        self._progress: Progress | None = None
        self._scratch: Path | None = None

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def stopping(self) -> asyncio.Event:
        """Set when the attempt should come to an end soon; `stop_reason` says why. A cancel of the task does not set it.

        While the worker is being stopped, whoever raises (anything but Permanent) gives the attempt back, uncharged.
        """
        if self._stopping is None:
            self._stopping = asyncio.Event()
            if self.stop_reason is not None:
                self._stopping.set()
        return self._stopping

    def ask_to_stop(self, reason: StopReason) -> None:
        """Set `stopping`; for the worker, on its event loop. The first reason stays unless a weightier one comes."""
        if self.stop_reason is None or _WEIGHT[reason] > _WEIGHT[self.stop_reason]:
            self.stop_reason = reason
        if self._stopping is not None:
            self._stopping.set()

    def stop_if_asked(self) -> None:
        """Raise Stopped when `stopping` is set: the attempt is given back, or is too late."""
        if self.stop_reason is not None:
            raise Stopped(self.stop_reason)

    def seconds_left(self) -> float:
        """Time until the deadline, in seconds; negative once it has passed."""
        return self.deadline - time.monotonic()

    # ── saying something ─────────────────────────────────────────────────────────────────────────────────
    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """A logger whose lines name the task, the item and the attempt."""
        if self._log is None:
            self._log = get_logger("processor").bind(
                task_id=str(self.item.task_id), item_id=str(self.item.id), attempt=self.attempt.number
            )
        return self._log

    def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Tell watchers how far this item is (`done` of `total`, in any unit): best effort.

        Call it as often as you like: at most five words a second go out, the latest within 200 ms.
        """
        if self._progress is None:
            tools, item = self._tools, self.item
            self._progress = Progress(
                lambda done, total, note: tools.publish_progress(item, done, total, note)
            )
        self._progress.say(done, total, note)

    # ── effects ──────────────────────────────────────────────────────────────────────────────────────────
    @property
    def storage(self) -> Storage:
        """The object storage of this deployment. Objects that people see have rows: see `put_object`."""
        return self._tools.storage

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of the item in every round, so that a receiver outside can drop a repeat."""
        return str(self.item.id)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """`async with context.transaction() as connection:` commits at its end, if this attempt still owns the item then.

        With `context.succeed(result)` inside, the effect and the item's result are one commit: both, or neither.
        Without, a crash after this commit runs the item again, so make the effect one that can be repeated (a unique
        key, an `on conflict do nothing`). The task's and the item's rows are locked last (lock order: album, photo, task,
        item). Raises Superseded, and rolls back, when somebody else has the item by now.
        """
        if self.committed is not None:
            raise RuntimeError("the item has ended: its result is committed")
        if self._in_transaction:
            raise RuntimeError("this attempt has an open transaction")
        self._in_transaction, self._pending = True, None
        try:
            async with self._tools.transaction(self.item, self.attempt, lambda: self._pending) as connection:
                yield connection
            self.committed = self._pending
        finally:
            self._in_transaction = False

    def succeed(self, result: Result = None) -> None:
        """Within `transaction()`: its commit ends the item with this result; what `run` returns is not looked at then.

        Permanent (`result_invalid`, `result_too_large`) when it is no result.
        """
        if not self._in_transaction:
            raise RuntimeError("succeed() belongs inside `async with context.transaction()`")
        encoded = encode_result(result, self._result_model)
        if isinstance(encoded, Failed):
            raise Permanent(encoded.code, encoded.message)
        self._pending = encoded

    def scratch(self) -> Path:
        """A folder of this attempt's own, removed when it ends and after a crash; bounded by the processor's `scratch_bytes`."""
        if self._scratch is None:
            self._scratch = self._tools.new_scratch(self.attempt)
        return self._scratch

    async def fetch_object(self, name: str) -> FetchedObject:
        """An object of the item's workspace as a file in `scratch()`, in bounded memory, its SHA-256 checked.

        Permanent `object_not_found` or `checksum_mismatch`, Transient `storage_unavailable`. While PostgreSQL is away it waits.
        """
        return await self._tools.fetch_object(self, name)

    async def put_object(self, name: str, path: Path) -> StoredObject:
        """Store a file as an object of the item's workspace, behind the fence. Again with the same bytes: the same object.

        Permanent `object_exists` when the name has other bytes, Transient `storage_unavailable`.
        """
        return await self._tools.put_object(self, name, path)

    # ── for the worker ───────────────────────────────────────────────────────────────────────────────────
    @property
    def scratch_folder(self) -> Path | None:
        """The folder that `scratch` made, if it was asked for."""
        return self._scratch

    def end(self) -> None:
        """The attempt is over: what was said last goes out, and nothing after it."""
        if self._progress is not None:
            self._progress.flush()
