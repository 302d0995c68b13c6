"""The rows of one task as they are between two steps: kept as a whole, put back, compared, and looked over for damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from lingxi.db.query import sql
from lingxi.services.check_invariants import OF_TASKS

TABLES = {
    "media_tasks": "id",
    "media_task_items": "task_id",
    "media_task_attempts": "task_id",
    "outbox_events": "task_id",
}

PREPARE = """
create function explorer_restore(p_task uuid, p_rows jsonb) returns void language plpgsql as $f$
declare v_table text; v_key text; v_columns text;
begin
  for v_table, v_key in select * from (values {tables}) t loop
    execute format('delete from %I where %I = $1', v_table, v_key) using p_task;
    select string_agg(quote_ident(attname), ', ' order by attnum) into v_columns
      from pg_attribute where attrelid = v_table::regclass and attnum > 0 and not attisdropped and attgenerated = '';
    execute format('insert into %1$I (%2$s) overriding system value select %2$s from jsonb_populate_recordset(null::%1$I, $1)',
                   v_table, v_columns) using p_rows -> v_table;
  end loop;
end $f$;
"""

LOOK = """
select t.status, t.round, t.last_seq,
       (select count(*) from outbox_events e where e.task_id = t.id and e.type = 'task.ended') as ends,
       array(select (i.position, i.state, i.attempt, i.last_seq, i.attempt_id,
                     coalesce(i.lease_expires_at < clock_timestamp(), false))
               from media_task_items i where i.task_id = t.id order by i.position) as items,
       array(select name || ': ' || detail from ({checks}) c) as violations
  from media_tasks t where t.id = ($1::uuid[])[1]
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What the model says something about, and what is wrong with the rows: invariant and detail."""

    task: dict[str, Any]  # status, round, last_seq, ends
    items: dict[int, tuple[Any, ...]]  # position → state, attempt, last_seq, fence, has its lease run out
    violations: tuple[str, ...]


async def prepare(connection: asyncpg.Connection[Any]) -> None:
    """Make what `TaskRows` calls, once a database."""
    tables = ", ".join(f"('{table}', '{key}')" for table, key in TABLES.items())
    await connection.execute(PREPARE.format(tables=tables))


class TaskRows:
    """Reads and restores the rows of one task over one connection."""

    def __init__(self, connection: asyncpg.Connection[Any], task_id: UUID) -> None:
        self._connection = connection
        self._task_id = task_id
        checks = " union all ".join(
            f"select '{name}' as name, detail from ({sql(name)}) x" for name in OF_TASKS
        )
        self._look = LOOK.format(checks=checks)
        whole = ", ".join(
            f"'{table}', (select coalesce(jsonb_agg(to_jsonb(x)), '[]') from {table} x where {key} = $1)"
            for table, key in TABLES.items()
        )
        self._whole = f"select jsonb_build_object({whole})::text"

    async def look(self) -> Look:
        row = await self._connection.fetchrow(self._look, [self._task_id])
        assert row is not None
        items = {position: tuple(rest) for position, *rest in row["items"]}
        return Look(
            {name: row[name] for name in ("status", "round", "last_seq", "ends")},
            items,
            tuple(row["violations"]),
        )

    async def whole(self) -> str:
        """Every row of the task, as JSON that `restore` takes."""
        rows: str = await self._connection.fetchval(self._whole, self._task_id)
        return rows

    async def restore(self, rows: str) -> None:
        await self._connection.execute("select explorer_restore($1, $2)", self._task_id, rows)
