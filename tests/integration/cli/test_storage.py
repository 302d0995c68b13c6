"""`lingxi storage`: what an operator does beside database and storage."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from lingxi.services.workspaces import create_workspace
from tests.support.processes import run_lingxi

Lingxi = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
async def lingxi(database_url: str, redis_url: str, pool: asyncpg.Pool[Any], tmp_path: Path) -> Lingxi:
    """`lingxi(…)`: a command beside this test's database and storage, which has a workspace `studio`."""
    async with pool.acquire() as connection:
        await create_workspace(connection, "studio")
    env = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "LINGXI_DATA_DIR": str(tmp_path),
        "STORAGE_URL": (tmp_path / "objects").as_uri(),
        "ORPHAN_AFTER_SECONDS": "0.1",
    }
    return lambda *arguments: run_lingxi("storage", *arguments, env=env)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


async def test_prefixes_are_allowed_listed_and_forbidden(lingxi: Lingxi, pool: asyncpg.Pool[Any]) -> None:
    assert (
        told(lingxi("allow", "studio", "Müller & Söhne/2026/", "--json"))["prefix"] == "Müller & Söhne/2026/"
    )
    assert told(lingxi("allowed", "studio", "--json")) == {"prefixes": ["Müller & Söhne/2026/"]}
    for bad in ("archive", "/etc/", "../x/", ""):
        refused = lingxi("allow", "studio", bad)
        assert (refused.returncode, "a prefix" in refused.stderr) == (2, True), refused.stderr
    nobody = lingxi("allow", "nobody", "a/")
    assert (nobody.returncode, "There is no workspace 'nobody'" in nobody.stderr) == (4, True)
    assert lingxi("forbid", "studio", "Müller & Söhne/2026/").returncode == 0
    assert lingxi("forbid", "studio", "Müller & Söhne/2026/").returncode == 4
    verbs = [row["verb"] for row in await pool.fetch("select verb from audit_log order by id")]
    assert verbs == ["storage.allow", "storage.forbid"]


async def test_orphans_are_reported_until_the_database_is_accepted(
    lingxi: Lingxi, pool: asyncpg.Pool[Any], tmp_path: Path
) -> None:
    assert told(lingxi("collect", "--json"))["orphans"] == 0
    key = "0123456789abcdef" * 2
    orphan = tmp_path / "objects" / "objects" / key[:2] / key
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"orphan")
    await pool.execute("delete from deployment")  # another database, or one from before
    said = lingxi("collect")
    assert said.returncode == 0
    assert "1  reported" in said.stdout
    assert "lingxi storage accept-database" in said.stdout
    assert orphan.exists()
    asked = lingxi("accept-database")
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    assert told(lingxi("accept-database", "--yes", "--json")) == {"replacedMarks": 1}
    assert told(lingxi("collect", "--json"))["orphans"] == 1
    assert not orphan.exists()
    assert (tmp_path / "objects" / "named" / "trash" / key).read_bytes() == b"orphan"


async def test_storage_that_is_away_is_told_in_a_sentence(lingxi: Lingxi, tmp_path: Path) -> None:
    (tmp_path / "objects").write_bytes(b"a file, not a folder")
    done = lingxi("collect")
    assert (done.returncode, done.stderr) == (
        3,
        "lingxi: The folder of the storage is not there; is its disk mounted?\n",
    )
    assert "Traceback" not in done.stderr
