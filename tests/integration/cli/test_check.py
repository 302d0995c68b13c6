"""`lingxi check`: each thing that may be wrong is found, named, and comes with how to mend it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.support.processes import run_lingxi
from tests.support.servers import new_valkey


def check(folder: Path, status: int, **env: str) -> dict[str, dict[str, Any]]:
    """Runs the command; answers its problems and notes by part."""
    run = run_lingxi("check", "--json", env={"LINGXI_DATA_DIR": str(folder), **env})
    told = json.loads(run.stdout.splitlines()[-1])
    assert (run.returncode, told["ok"]) == (status, status == 0), run.stdout
    assert "Traceback" not in run.stderr
    return {finding["part"]: finding for finding in told["findings"] if finding["level"] != "ok"}


def test_all_in_order(database_url: str, redis_url: str, tmp_path: Path) -> None:
    secret = "a secret of the tests that is long enough to sign with"
    env = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "LINGXI_SECRET_KEY": secret}
    assert check(tmp_path, 0, **env) == {}
    for_people = run_lingxi("check", env={**env, "LINGXI_DATA_DIR": str(tmp_path)})
    assert for_people.stdout.splitlines()[-1] == "Everything is in order."


def test_a_database_that_was_never_migrated(empty_database_url: str, redis_url: str, tmp_path: Path) -> None:
    found = check(tmp_path, 1, DATABASE_URL=empty_database_url, REDIS_URL=redis_url)
    assert "never migrated" in found["schema"]["text"]
    assert "lingxi migrate" in found["schema"]["mend"]
    run_lingxi("migrate", env={"DATABASE_URL": empty_database_url, "LINGXI_DATA_DIR": str(tmp_path)})
    assert "schema" not in check(tmp_path, 0, DATABASE_URL=empty_database_url, REDIS_URL=redis_url)


async def test_a_role_without_rights(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str, tmp_path: Path
) -> None:
    name = f"stranger_{os.getpid()}"
    await pool.execute(f"create role {name} login password 'none'")
    try:
        await pool.execute(f"grant select on alembic_version to {name}")
        there = urlsplit(database_url)
        theirs = there._replace(netloc=f"{name}:none@{there.hostname}:{there.port}").geturl()
        found = check(tmp_path, 1, DATABASE_URL=theirs, REDIS_URL=redis_url)
        assert "media_tasks" in found["PostgreSQL"]["text"]
        assert found["PostgreSQL"]["mend"].startswith("GRANT ")
    finally:
        await pool.execute(f"drop owned by {name}; drop role {name}")


def test_a_redis_that_would_throw_jobs_away(database_url: str, tmp_path: Path) -> None:
    with new_valkey(tmp_path / "valkey", **{"maxmemory-policy": "allkeys-lru"}) as server:
        found = check(tmp_path, 1, DATABASE_URL=database_url, REDIS_URL=server.url)
    assert "allkeys-lru" in found["Redis"]["text"]
    assert "noeviction" in found["Redis"]["mend"]


def test_a_password_that_is_wrong(database_url: str, redis_url: str, tmp_path: Path) -> None:
    def wrong(url: str) -> str:
        there = urlsplit(url)
        return there._replace(
            netloc=f"{there.username or ''}:wrong-one@{there.hostname}:{there.port}"
        ).geturl()

    found = check(tmp_path, 1, DATABASE_URL=wrong(database_url), REDIS_URL=wrong(redis_url))
    assert set(found) - {"settings"} == {"PostgreSQL", "Redis"}
    assert "wrong-one" not in json.dumps(found)


def test_files_that_others_can_read_or_nobody_can_write(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("lx_secret")
    token.chmod(0o644)
    storage = tmp_path / "a file"
    storage.touch()
    env = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "STORAGE_URL": storage.as_uri()}
    found = check(tmp_path, 1, **env)
    assert "chmod 600" in found["files"]["mend"]
    assert "cannot be written" in found["storage"]["text"]


@pytest.mark.parametrize(("name", "value"), [("LINGXI_PORT", "many"), ("QUEUE", "nonsense")])
def test_a_setting_that_is_wrong(name: str, value: str, tmp_path: Path) -> None:
    found = check(tmp_path, 1, **{name: value})
    assert name in found["settings"]["text"] or value in found["settings"]["text"]
    assert found["settings"]["mend"]


async def test_a_database_of_a_later_version_is_in_order(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str, tmp_path: Path
) -> None:
    await pool.execute("update alembic_version set version_num = '9999_of_a_later_version'")
    found = check(tmp_path, 0, DATABASE_URL=database_url, REDIS_URL=redis_url)
    assert found["schema"]["level"] == "note"
    assert "9999_of_a_later_version" in found["schema"]["text"]
