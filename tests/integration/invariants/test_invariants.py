"""`lingxi invariants`: silent on sound rows, and each kind of damage is found, by its name."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from lingxi.services import check_invariants as checked
from lingxi.services.check_invariants import check_invariants, check_task
from tests.support.photos import Photos
from tests.support.processes import environment, run_lingxi
from tests.support.work import Work, drills

ALL = {name.removeprefix("invariants/") for name in (*checked.OF_TASKS, *checked.OF_ALBUMS, *checked.OF_ALL)}

# What a sound database has: a task that ended, with an effect, a failed item in its second round and a released attempt; a
# task that waits; an album with a published photo. Constraints that would refuse the damage are taken off first.
DAMAGE = {
    "task_counters_equal_items": (
        "alter table media_tasks drop constraint task_counters_add_up",
        "update media_tasks set succeeded_items = succeeded_items + 1 where finished_at is not null",
    ),
    "task_numbers_once": ("update media_task_items set last_seq = 3 where last_seq > 1",),
    "task_ends_once_a_round": (
        "insert into outbox_events (type, task_id, round) "
        "select type, task_id, round from outbox_events where type = 'task.ended'",
    ),
    "nothing_waits_after_a_cancel": (
        "update media_tasks set cancel_requested_at = now() where finished_at is null",
    ),
    "waiting_item_has_an_event": (
        "delete from outbox_events e using media_tasks t "
        "where e.type = 'items.queued' and e.task_id = t.id and t.finished_at is null",
    ),
    "item_round_and_attempts": ("update media_task_items set attempt = 4 where state = 'failed'",),
    "item_result_or_error": ("update media_task_items set error_code = 'x' where state = 'succeeded'",),
    "attempt_succeeds_once": (
        "insert into media_task_attempts (id, task_id, position, round, number, started_at, finished_at, outcome) "
        "select -1, task_id, position, 1, 1, now(), now(), 'succeeded' from media_task_items where state = 'succeeded' limit 1",
    ),
    "attempt_is_in_the_history": (
        "delete from media_task_attempts where id in (select attempt_id from media_task_items)",
    ),
    "effect_belongs_to_a_success": ("update drill_effects set attempt_id = 0",),
    "album_numbers_once": ("update photos set last_seq = 99",),
    "photo_ready_has_variants": ("delete from photo_variants where kind = 'thumb'",),
    "photo_job_agrees": (
        "update photos set processing_state = 'uploaded', visibility = 'unpublished', published_generation = 0",
    ),
    "photo_told_once": (
        "insert into outbox_events (type, payload) select type, payload from outbox_events where type = 'photo.published'",
    ),
    "dead_letter_is_unpublished": (
        "update outbox_events set last_error = 'dead_lettered' where published_at is not null",
    ),
    "answer_is_remembered_whole": (
        "insert into idempotency_keys (workspace_id, method, path, key, body_sha256) "
        "select id, 'POST', '/', 'k', '' from workspaces",
    ),
}


async def broken(pool: asyncpg.Pool[asyncpg.Record]) -> set[str]:
    async with (
        pool.acquire() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        return {violation.invariant async for violation in check_invariants(connection)}


async def busy(work: Work, folder: Path) -> UUID:
    """Fills the database; answers the task that ended."""
    ended = await work.submit({"effect": True}, {"fail": "permanent"}, {"fail": "transient"})
    async with work.dispatching(), work.worker():
        await work.ended(ended, 60)
        await work.retry_failed(ended)
        await work.ended(ended, 60)
        await work.queue_empty()
    await work.submit(*drills(3))
    async with Photos.open(work, folder) as photos:
        photo_id = await photos.new_photo()
        async with work.dispatching(), photos.worker():
            await photos.until_job(photo_id, "done", 60)
    return ended


async def test_each_damage_is_found_by_its_name(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str, tmp_path: Path
) -> None:
    assert set(DAMAGE) == ALL
    work = await Work.begin(pool, database_url, redis_url)
    ended = await busy(work, tmp_path)
    assert await broken(pool) == set()
    async with pool.acquire() as connection:
        for name, statements in DAMAGE.items():
            transaction = connection.transaction()
            await transaction.start()
            for statement in statements:
                status = await connection.execute(statement)
                assert not status.endswith(" 0"), (name, "did no damage")
            found = {violation.invariant async for violation in check_invariants(connection)}
            await transaction.rollback()
            assert name in found
        assert [violation async for violation in check_task(connection, ended)] == []
    await tell_by_command(pool, database_url, ended, tmp_path)


async def tell_by_command(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, ended: UUID, folder: Path
) -> None:
    """The command says what it found, names the row, and exits with 1; and changes nothing."""
    env = {"DATABASE_URL": database_url, "LINGXI_DATA_DIR": str(folder)}
    sound = run_lingxi("invariants", "--json", env=env)
    told = json.loads(sound.stdout.splitlines()[-1])
    assert (sound.returncode, told["ok"], told["items"], told["albums"]) == (0, True, 6, 1), sound.stdout
    await pool.execute("update drill_effects set attempt_id = 0")
    found = run_lingxi("invariants", "--task", str(ended), "--json", env=env)
    told = json.loads(found.stdout.splitlines()[-1])
    assert (found.returncode, told["violations"]) == (1, {"effect_belongs_to_a_success": 1})
    assert told["rows"][0]["subject"] == f"{ended}/1"
    assert run_lingxi("invariants", "--task", "nonsense", env=env).returncode == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_million_items_take_a_minute_and_little_memory(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, tmp_path: Path
) -> None:
    """In many small reads: no answer is larger than its violations. Time and memory of the command, by the kernel's account."""
    await pool.execute("insert into workspaces (id, name) values (gen_random_uuid(), 'w')")
    await pool.execute(
        "insert into media_tasks (id, workspace_id, type, total_items, queued_items) "
        "select (substring(gen_random_uuid()::text, 1, 32) || '0000')::uuid, w.id, 'demo:drill', 10000, 10000 "
        "from workspaces w, generate_series(1, 100)"
    )
    await pool.execute(
        "insert into media_task_items (task_id, position, input) select id, n, '{}' from media_tasks, generate_series(1, 10000) n"
    )
    await pool.execute(
        "insert into outbox_events (type, queue, task_id, round, first_position, last_position, item_count) "
        "select 'items.queued', type, id, 1, 1, 10000, 10000 from media_tasks"
    )
    await pool.execute("analyze")
    env = environment(DATABASE_URL=database_url, LINGXI_DATA_DIR=str(tmp_path))
    began = time.monotonic()
    with (tmp_path / "out").open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "lingxi", "invariants", "--json"], env=env, stdout=out
        )
        _, status, usage = await asyncio.to_thread(os.wait4, child.pid, 0)
    seconds, mebibytes = time.monotonic() - began, usage.ru_maxrss / 1024
    told = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    print(
        f"\n{told['items']} items in {seconds:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of its own, {mebibytes:.0f} MiB"
    )
    assert (os.waitstatus_to_exitcode(status), told["ok"], told["items"]) == (0, True, 1_000_000)
    assert mebibytes < 200
    assert seconds < 180, "60 s on a quiet machine"
