"""What holds in every committed state, looked up in the rows: counters, numbers, ends, attempts, effects, photos, the outbox.

Each invariant is one statement in `db/queries/invariants/`, which answers the rows that break it. They are read in one
snapshot, a bounded number of tasks or albums at a time, so a database of any size is checked while it works, in little memory.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record

OF_TASKS: Final = (
    "invariants/task_counters_equal_items",
    "invariants/task_numbers_once",
    "invariants/task_ends_once_a_round",
    "invariants/nothing_waits_after_a_cancel",
    "invariants/waiting_item_has_an_event",
    "invariants/item_round_and_attempts",
    "invariants/item_result_or_error",
    "invariants/attempt_succeeds_once",
    "invariants/attempt_is_in_the_history",
    "invariants/effect_belongs_to_a_success",
)
OF_ALBUMS: Final = (
    "invariants/album_numbers_once",
    "invariants/photo_ready_has_variants",
    "invariants/photo_job_agrees",
)
OF_ALL: Final = (
    "invariants/photo_told_once",
    "invariants/dead_letter_is_unpublished",
    "invariants/answer_is_remembered_whole",
)
ITEMS_AT_A_TIME: Final = 50_000
SUBJECTS_AT_A_TIME: Final = 2_000
_BEFORE_ALL: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Violation:
    """One row that breaks an invariant. `subject` is a task, an item as `task/position`, a photo, an album or an event."""

    invariant: str
    subject: str
    detail: str


@dataclass(slots=True)
class Looked:
    """How much was looked at so far."""

    tasks: int = 0
    items: int = 0
    albums: int = 0


async def check_task(connection: Connection, task_id: UUID) -> AsyncIterator[Violation]:
    """What is wrong with one task; nothing when there is none."""
    async for violation in _check(connection, OF_TASKS, [task_id]):
        yield violation


async def check_newest_tasks(connection: Connection, tasks: int) -> AsyncIterator[Violation]:
    """What is wrong with the newest tasks, as many as have ITEMS_AT_A_TIME items. The transaction has to be a snapshot."""
    rows = await connection.fetch(sql("invariants/newest_tasks"), tasks)
    for batch in _batches(rows)[:1]:
        async for violation in _check(connection, OF_TASKS, [row["id"] for row in batch]):
            yield violation


async def check_invariants(connection: Connection, looked: Looked | None = None) -> AsyncIterator[Violation]:
    """All that is wrong, as it is found. The transaction has to be a snapshot: `repeatable_read`, read only."""
    looked = looked if looked is not None else Looked()
    for name in OF_ALL:
        for row in await connection.fetch(sql(name)):
            yield _violation(name, row)
    async for albums in _albums(connection):
        async for violation in _check(connection, OF_ALBUMS, albums):
            yield violation
        looked.albums += len(albums)
    after = _BEFORE_ALL
    while rows := await connection.fetch(sql("invariants/next_tasks"), after, SUBJECTS_AT_A_TIME):
        for batch in _batches(rows):
            ids = [row["id"] for row in batch]
            async for violation in _check(connection, OF_TASKS, ids):
                yield violation
            looked.tasks += len(ids)
            looked.items += sum(row["total_items"] for row in batch)
        after = rows[-1]["id"]


async def _albums(connection: Connection) -> AsyncIterator[list[UUID]]:
    after = _BEFORE_ALL
    while rows := await connection.fetch(sql("invariants/next_albums"), after, SUBJECTS_AT_A_TIME):
        ids = [row["id"] for row in rows]
        yield ids
        after = ids[-1]


def _batches(rows: Sequence[Record]) -> list[list[Record]]:
    """Runs of tasks with at most ITEMS_AT_A_TIME items, or one task."""
    batches: list[list[Record]] = []
    room = 0
    for row in rows:
        if row["total_items"] > room:
            batches.append([])
            room = ITEMS_AT_A_TIME
        batches[-1].append(row)
        room -= row["total_items"]
    return batches


async def _check(
    connection: Connection, names: Sequence[str], ids: Sequence[UUID]
) -> AsyncIterator[Violation]:
    for name in names:
        for row in await connection.fetch(sql(name), ids):
            yield _violation(name, row)


def _violation(name: str, row: Record) -> Violation:
    return Violation(name.removeprefix("invariants/"), row["subject"], row["detail"])
