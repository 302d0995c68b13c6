"""Migrations: from empty, from every version before, by ten processes at once; and the database refuses nonsense by name."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from lingxi.db.migrate import _config, current_revision, migrate
from lingxi.db.revision import head_revision
from lingxi.domain.ids import new_task_id
from tests.support.servers import ROOT

pytestmark = pytest.mark.portable

REVISIONS = [revision.revision for revision in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


async def shape(url: str) -> list[tuple[Any, ...]]:
    """Tables, columns, constraints, indexes and functions of a database."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("""
            select 'column', table_name::text, column_name::text, data_type::text, coalesce(column_default, '')
              from information_schema.columns where table_schema = 'public'
            union all select 'constraint', conrelid::regclass::text, conname::text, pg_get_constraintdef(oid), ''
              from pg_constraint where connamespace = 'public'::regnamespace
            union all select 'index', tablename::text, indexname::text, indexdef, ''
              from pg_indexes where schemaname = 'public'
            union all select 'function', '', proname::text, md5(prosrc), ''
              from pg_proc where pronamespace = 'public'::regnamespace
            order by 1, 2, 3""")
    finally:
        await connection.close()
    return [tuple(row) for row in rows]


def test_the_newest_step_by_name_is_the_one_by_order() -> None:
    assert head_revision() == REVISIONS[-1]


async def test_from_empty(empty_database_url: str) -> None:
    assert await current_revision(empty_database_url) is None
    assert await migrate(empty_database_url) == (None, head_revision())
    assert await migrate(empty_database_url) == (head_revision(), head_revision())


@pytest.mark.parametrize("revision", REVISIONS)
async def test_from_each_version_before(empty_database_url: str, database_url: str, revision: str) -> None:
    await migrate(empty_database_url, revision)
    assert await current_revision(empty_database_url) == revision
    await migrate(empty_database_url)
    assert await shape(empty_database_url) == await shape(database_url)


def test_ten_processes_migrate_once(empty_database_url: str) -> None:
    code = "import sys; from lingxi.db.migrate import migrate_sync; print(migrate_sync(sys.argv[1])[0])"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, empty_database_url],
            stdout=subprocess.PIPE,
            env=dict(os.environ) | {"PYTHONPATH": str(ROOT / "src")},
        )
        for _ in range(10)
    ]
    before = [process.communicate(timeout=120)[0].decode().strip() for process in started]
    assert [process.returncode for process in started] == [0] * 10
    assert before.count("None") == 1
    assert before.count(head_revision()) == 9


async def test_a_migration_that_fails_leaves_nothing(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute("create table audit_log (other int)")  # in the way of the first step
    with pytest.raises(Exception, match="audit_log"):
        await migrate(empty_database_url)
    tables = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
    await connection.close()
    assert [row[0] for row in tables] == ["audit_log"]


ATTEMPT = """insert into media_task_attempts
    (id, task_id, position, round, number, started_at, finished_at, outcome)"""
TOKEN = "insert into tokens (id, workspace_id, role, name, secret_hash)"
NONSENSE = {
    "task_counters_not_negative": "update media_tasks set queued_items = 3, running_items = -1",
    "task_counters_add_up": "update media_tasks set queued_items = 1",
    "task_final_has_time": "update media_tasks set finished_at = now()",
    "task_priority_known": "update media_tasks set priority = 9",
    "task_id_leaves_room": "update media_tasks set id = '01a2334c-382d-7d8a-a6f0-b66ab5b00001'",
    "item_once": "update media_task_items set position = 1",
    "item_state_known": "update media_task_items set state = 'lost'",
    "item_final_has_time": "update media_task_items set state = 'succeeded'",
    "item_running_has_lease": "update media_task_items set state = 'running', attempt = 1, attempt_id = 1",
    "item_running_has_fence": "update media_task_items set state = 'running', lease_expires_at = now()",
    "item_retrying_has_time": "update media_task_items set state = 'retrying'",
    "item_failed_has_code": "update media_task_items set state = 'failed', finished_at = now()",
    "attempt_outcome_known": ATTEMPT + " values (1, gen_random_uuid(), 1, 1, 1, now(), now(), 'running')",
    "event_items_named": "insert into outbox_events (type, queue) values ('items.queued', 'demo:drill')",
    "token_operator_has_no_workspace": TOKEN + " values (gen_random_uuid(), null, 'viewer', 'n', '')",
    "token_role_known": TOKEN + " select gen_random_uuid(), id, 'king', 'n', '' from workspaces",
    "media_task_attempts_pkey": ATTEMPT
    + " select 1, gen_random_uuid(), 1, 1, 1, now(), now(), 'lost' from generate_series(1, 2)",
}


@pytest.mark.parametrize("constraint", NONSENSE)
async def test_nonsense_is_refused_by_name(database_url: str, constraint: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("insert into workspaces (id, name) values ($1, 'w')", workspace := uuid4())
    task = new_task_id()
    await connection.execute(
        "insert into media_tasks (id, workspace_id, type, total_items, queued_items) values ($1, $2, 'demo:drill', 2, 2)",
        task,
        workspace,
    )
    await connection.execute(
        "insert into media_task_items (task_id, position, input) values ($1, 1, '{}'), ($1, 2, '{}')", task
    )
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
        await connection.execute(NONSENSE[constraint])
    await connection.close()
    assert refused.value.constraint_name == constraint


async def test_an_attempt_in_the_history_has_ended(database_url: str) -> None:
    """The one live attempt is in the item's own row; a second one has nowhere to be."""
    connection = await asyncpg.connect(database_url)
    with pytest.raises(asyncpg.NotNullViolationError):
        await connection.execute(ATTEMPT + " values (1, gen_random_uuid(), 1, 1, 1, now(), null, 'lost')")
    await connection.close()


def test_concurrent_migrations_in_one_process(empty_database_url: str) -> None:
    async def all_at_once() -> list[tuple[str | None, str | None]]:
        return await asyncio.gather(*[migrate(empty_database_url) for _ in range(5)])

    assert [before for before, _ in asyncio.run(all_at_once())].count(None) == 1
