"""The log lines of attempts that did not succeed, kept with their history."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection


async def keep_attempt_lines(connection: Connection, lines: Mapping[int, Sequence[str]]) -> None:
    """By the attempt's fence; of one that has no row in the history, nothing is kept."""
    await connection.execute(
        sql("attempts/keep_lines"), list(lines), [orjson.dumps(list(one)).decode() for one in lines.values()]
    )


async def lines_of_attempts(connection: Connection, task_id: UUID, position: int) -> list[list[str]]:
    """Of each ended attempt of an item, oldest first."""
    rows = await connection.fetch(sql("attempts/lines_of_item"), task_id, position)
    return [[] if row["log_lines"] is None else orjson.loads(row["log_lines"]) for row in rows]
