"""The audit log is read by the workspace's admin alone, and exported whole in little memory."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.integration.api.harness import Api, World
from tests.support.processes import environment, run_lingxi

Pool = asyncpg.Pool
START = datetime(2026, 1, 1, tzinfo=UTC)
FILL = """
    insert into audit_log (workspace_id, verb, target, request_id, at)
    select case when n % 2 = 0 then $1::uuid else $2::uuid end, 'task.cancel', 'task:' || n, 'r-' || n,
           $3::timestamptz + n * interval '1 s'
      from generate_series(1, $4) n
"""
MIB = 1024 * 1024


async def fill(pool: Pool, world: World, rows: int) -> None:
    await pool.execute(FILL, world.ours.workspace_id, world.theirs.workspace_id, START, rows)


def exported(database_url: str, *arguments: str, **env: str) -> str:
    run = run_lingxi("export-audit", *arguments, env={"DATABASE_URL": database_url, **env})
    assert run.returncode == 0, run.stderr
    return run.stdout


async def test_an_admin_pages_through_the_own_workspaces(api: Api, world: World, pool: Pool) -> None:
    await fill(pool, world, 60)
    async with api.client(world.ours.admin) as admin:
        seen: list[dict[str, Any]] = []
        query: dict[str, str] = {"limit": "7"}
        while True:
            page = (await admin.get("audit", params=query)).json()
            seen += page["entries"]
            if page["nextCursor"] is None:
                break
            query["cursor"] = page["nextCursor"]
        assert [one["target"] for one in seen] == [f"task:{n}" for n in range(60, 0, -2)], (
            "newest first, ours only"
        )
        assert {one["workspaceId"] for one in seen} == {str(world.ours.workspace_id)}
        since, until = (START + timedelta(seconds=n) for n in (10, 20))
        some = await admin.get("audit", params={"since": since.isoformat(), "until": until.isoformat()})
        assert [one["target"] for one in some.json()["entries"]] == [f"task:{n}" for n in range(18, 9, -2)]
        elsewhere = {"cursor": query["cursor"], "since": since.isoformat()}
        assert (await admin.get("audit", params=elsewhere)).status_code == 400, "a cursor of other bounds"
        assert (await admin.get("audit", params={"since": "yesterday"})).status_code == 422
        assert (await admin.get("audit", params={"who": "me"})).status_code == 422
        # a change of one's own, with the token that made it
        made = (await admin.post("tokens", json={"name": "=cmd|'x'", "role": "viewer"})).json()
        (newest,) = (await admin.get("audit", params={"limit": 1})).json()["entries"]
        assert (newest["verb"], newest["target"]) == ("token.create", f"token:{made['id']}")
        assert (newest["actorName"], newest["actorRole"]) == ("admin", "admin")


async def test_exports(api: Api, world: World, pool: Pool, database_url: str, tmp_path: Path) -> None:
    """Beside the database of all or of one workspace, over HTTP one's own; JSON lines and CSV; more than a statement's rows."""
    await fill(pool, world, 3500)
    await pool.execute(
        "insert into audit_log (verb, target, at) values ('workspace.create', '=1+1', $1)", START
    )
    everything = [json.loads(line) for line in exported(database_url, "--all").splitlines()]
    assert [one["at"] for one in everything] == sorted(one["at"] for one in everything)
    assert len(everything) == 3501 and len({one["id"] for one in everything}) == 3501
    assert [one["target"] for one in everything if one["workspaceId"] is None] == ["=1+1"]
    ours = exported(database_url, "--workspace", "ours")
    wanted = [one for one in everything if one["workspaceId"] == str(world.ours.workspace_id)]
    assert [json.loads(line) for line in ours.splitlines()] == wanted
    bounds = ("--since", "2026-01-01T00:00:10Z", "--until", "2026-01-01T00:00:13")
    few = [json.loads(line)["target"] for line in exported(database_url, "--all", *bounds).splitlines()]
    assert few == ["task:10", "task:11", "task:12"]
    assert exported(database_url, "--all", "--since", "1h") == "", "all of it is older"
    over_http = await asyncio.to_thread(
        exported, database_url, "--token", world.ours.admin, "--url", api.url, "--since", "2025-01-01"
    )
    assert [json.loads(line) for line in over_http.splitlines()] == wanted[::-1]
    file = tmp_path / "audit.csv"
    assert exported(database_url, "--all", "--format", "csv", "--output", str(file)) == ""
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["id"] for row in rows] == [one["id"] for one in everything]
    assert [row["target"] for row in rows if row["verb"] == "workspace.create"] == ["'=1+1"], "no formula"
    assert file.stat().st_mode & 0o777 == 0o600 and not list(tmp_path.glob(".audit*"))


async def test_who_may_not(api: Api, world: World, database_url: str, tmp_path: Path) -> None:
    """An editor's token is refused, and no half a file is left; so is an unknown workspace."""
    file = tmp_path / "audit.jsonl"
    env = {"DATABASE_URL": database_url, "LINGXI_URL": api.url}
    refused = await asyncio.to_thread(
        run_lingxi, "export-audit", "-o", str(file), "--token", world.ours.editor, env=env
    )
    assert refused.returncode == 4 and "40301" in refused.stderr and not file.exists()
    unknown = await asyncio.to_thread(
        run_lingxi, "export-audit", "--workspace", "nobodys", "-o", str(file), env=env
    )
    assert unknown.returncode != 0 and not [one for one in tmp_path.iterdir() if "audit.jsonl" in one.name]
    for wrong in (["--workspace", "ours", "--all"], ["--all", "--since", "soon"], ["--format", "xml"]):
        assert run_lingxi("export-audit", *wrong, env=env).returncode == 2


@pytest.mark.slow
async def test_a_hundred_thousand_entries_in_little_memory(
    world: World, pool: Pool, database_url: str, tmp_path: Path
) -> None:
    """The peak of an export of 100,000 entries is that of one of 1,000."""
    peaks = []
    await fill(pool, world, 1_000)
    for rows in (1_000, 100_000):
        if rows > 1_000:
            await fill(pool, world, rows - 1_000)
        file = tmp_path / f"{rows}.jsonl"
        measure = (
            "import resource, sys; sys.argv[0] = 'lingxi'; from lingxi.cli import main\n"
            "try: main()\n"
            "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        run = subprocess.run(
            [sys.executable, "-c", measure, "export-audit", "--all", "-o", str(file)],
            env=environment(DATABASE_URL=database_url), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        assert file.read_bytes().count(b"\n") == rows
        peaks.append(int(run.stdout.split()[-1]) * 1024)
    assert peaks[1] - peaks[0] < 8 * MIB, peaks
