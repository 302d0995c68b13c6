"""Reading "what changed after this point" from PostgreSQL: one statement for any number of tasks."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.rows import task_of
from lingxi.db.session import Connection, Record, is_unavailable
from lingxi.domain.errors import PostgresUnavailable
from lingxi.domain.wire import Task
from lingxi.stream.cursor import Point, settled
from lingxi.stream.frames import Block, ItemRow, end, item_blocks

PAGE_ROWS = 500  # of one task, for those behind
POLL_ROWS = 1_000  # of one task, for all that watch it
PAGE_BYTES = 128 * 1024
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One task to read: its items after a point, at most `rows` of them. `always`: also when nothing has changed."""

    task_id: UUID
    after: Point
    rows: int
    always: bool = False


@dataclass(frozen=True)
class TaskPage:
    """A task and its next changed items, as of one moment. Not `complete`: more items changed than were asked for."""

    task: Task
    blocks: Sequence[Block]
    complete: bool

    @property
    def last(self) -> Point:
        """The point up to which all was seen by whoever has seen the point asked for and takes this page."""
        return settled(self.task.cursor) if self.complete else self.blocks[-1].last

    @cached_property
    def end_frame(self) -> bytes:
        return end(self.task)


class Reader(Protocol):
    """Where the hub reads from. A task that does not exist, or has not changed, is not in the answer."""

    async def read(self, asks: Sequence[Ask]) -> dict[UUID, TaskPage]:
        """Raises PostgresUnavailable."""
        ...

    async def close(self) -> None: ...


class PostgresReader:
    """A Reader on one connection of its own: polls neither wait for the pool nor take from it.

    `connect` opens the connection (with the settings of hot connections: the plan is made once, and for keys).
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    async def read(self, asks: Sequence[Ask]) -> dict[UUID, TaskPage]:
        rows_asked = {ask.task_id: ask.rows for ask in asks}
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            records = await self._connection.fetch(
                sql("stream/read_tasks"),
                [ask.task_id for ask in asks],
                [ask.after[0] for ask in asks],
                [ask.after[1] for ask in asks],
                [ask.rows for ask in asks],
                [ask.always for ask in asks],
                PAGE_BYTES,
                timeout=_TIMEOUT_SECONDS,
            )
        except BaseException as error:
            self._drop()
            if is_unavailable(error):
                raise PostgresUnavailable("PostgreSQL cannot serve now; try again soon.") from error
            raise
        return {record["id"]: _page(record, rows_asked[record["id"]]) for record in records}

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=2)
            self._connection = None

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _page(record: Record, rows_asked: int) -> TaskPage:
    task, rows = task_of(record), _rows(record)
    complete = rows_asked == 0 or len(rows) == record["found"] < rows_asked
    return TaskPage(task, item_blocks(task.id, rows, more_follow=not complete), complete)


def _rows(record: Record) -> list[ItemRow]:
    if not record["found"]:
        return []
    columns = (
        record["positions"],
        record["numbers"],
        record["states"],
        record["refs"],
        record["attempts"],
        record["results"],
        record["error_codes"],
        record["error_messages"],
        record["error_retryables"],
    )
    return [
        ItemRow(
            position,
            number,
            state,
            ref,
            attempt,
            result,
            None if code is None else (code, message or code, bool(retryable)),
        )
        for position, number, state, ref, attempt, result, code, message, retryable in zip(
            *columns, strict=True
        )
    ]
