"""The rows of one task as they are between two steps: kept as a whole, put back, compared, and looked over for damage."""

from __future__ import annotations

import json
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
create function explorer_rows(p_task uuid) returns jsonb language plpgsql as $f$
declare v_table text; v_key text; v_rows jsonb; v_all jsonb := '{{}}';
begin
  for v_table, v_key in select * from (values {tables}) t loop
    execute format('select coalesce(jsonb_agg(to_jsonb(x)), ''[]'') from %I x where %I = $1', v_table, v_key)
       into v_rows using p_task;
    v_all := v_all || jsonb_build_object(v_table, v_rows);
  end loop;
  return v_all;
end $f$;
"""


@dataclass(frozen=True, slots=True)
class Look:
    """All rows of the task as JSON, and what is wrong with them: invariant and detail."""

    rows: str
    violations: tuple[str, ...]

    def table(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.rows)[name]
        return found


async def prepare(connection: asyncpg.Connection[Any]) -> None:
    """Make what `TaskRows` calls, once a database."""
    tables = ", ".join(f"('{table}', '{key}')" for table, key in TABLES.items())
    await connection.execute(PREPARE.format(tables=tables))


class TaskRows:
    """Reads and restores the rows of one task over one connection; every step is a commit of its own."""

    def __init__(self, connection: asyncpg.Connection[Any], task_id: UUID) -> None:
        self._connection = connection
        self._task_id = task_id
        checks = " union all ".join(
            f"select '{name}' as name, detail from ({sql(name)}) x" for name in OF_TASKS
        )
        self._look = (
            "select explorer_rows(($1::uuid[])[1])::text as rows, "
            f"array(select name || ': ' || detail from ({checks}) c) as wrong"
        )

    async def look(self) -> Look:
        row = await self._connection.fetchrow(self._look, [self._task_id])
        assert row is not None
        return Look(row["rows"], tuple(row["wrong"]))

    async def restore(self, look: Look) -> None:
        await self._connection.execute("select explorer_restore($1, $2)", self._task_id, look.rows)
