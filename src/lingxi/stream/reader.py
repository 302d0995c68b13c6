"""Reading "what changed after this point" from PostgreSQL: one statement for any number of tasks, one for albums."""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.rows import task_of
from lingxi.db.session import Connection, Record, is_unavailable
from lingxi.domain.errors import PostgresUnavailable
from lingxi.stream.album_reader import read_albums
from lingxi.stream.frames import ItemRow, item_blocks
from lingxi.stream.page import Ask, Page
from lingxi.stream.subject import AlbumKey, Key, TaskSubject

PAGE_ROWS = 500  # of one subject, for those behind
POLL_ROWS = 1_000  # of one subject, for all that watch it
PAGE_BYTES = 128 * 1024
_TIMEOUT_SECONDS = 10.0


class PostgresReader:
    """A `page.Reader` on one connection of its own: polls neither wait for the pool nor take from it.

    `connect` opens the connection (with the settings of hot connections: the plan is made once, and for keys).
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    async def read(self, asks: Sequence[Ask]) -> dict[Key, Page]:
        """One statement for the tasks and one for the albums, each only where there are any."""
        albums = [(ask.key, ask) for ask in asks if isinstance(ask.key, AlbumKey)]
        pages: dict[Key, Page] = {}
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            if albums:
                pages.update(await read_albums(self._connection, albums, timeout_seconds=_TIMEOUT_SECONDS))
            if len(albums) < len(asks):
                pages.update(await _read_tasks(self._connection, asks))
        except BaseException as error:
            self._drop()
            if is_unavailable(error):
                raise PostgresUnavailable("PostgreSQL cannot serve now; try again soon.") from error
            raise
        return pages

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=2)
            self._connection = None

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


async def _read_tasks(connection: Connection, asks: Sequence[Ask]) -> dict[Key, Page]:
    by_id = {ask.key: ask for ask in asks if isinstance(ask.key, UUID)}
    records = await connection.fetch(
        sql("stream/read_tasks"),
        list(by_id),
        [ask.after[0] for ask in by_id.values()],
        [ask.after[1] for ask in by_id.values()],
        [ask.rows for ask in by_id.values()],
        [ask.always for ask in by_id.values()],
        PAGE_BYTES,
        timeout=_TIMEOUT_SECONDS,
    )
    return {record["id"]: _page(record, by_id[record["id"]].rows) for record in records}


def _page(record: Record, rows_asked: int) -> Page:
    task, rows = task_of(record), _rows(record)
    complete = rows_asked == 0 or len(rows) == record["found"] < rows_asked
    blocks = item_blocks(task.id, rows, more_follow=not complete)
    return Page(TaskSubject(task), blocks, complete, record["ended_seconds"])


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
