"""The last release beside this version on one database: upgraded and rolled back while it works, as the page says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx
import pytest

from lingxi.db.migrate import current_revision
from lingxi.db.revision import head_revision
from lingxi.embedded.supervise import free_port
from tests.deploying.conftest import new_token, settings
from tests.support.processes import Process, Processes, run_lingxi
from tests.support.programs import cannot
from tests.support.servers import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(400)  # several processes start, one after another

LAST_RELEASE = "ec44b32c587d5acda478699081b3b94eff7c5990"  # 0.1.0, whose schema ended with the next line's
ITS_SCHEMA = "0006"
LIVELY = {
    "OUTBOX_DISPATCH_INTERVAL_MS": "100",
    "SWEEP_INTERVAL_SECONDS": "1",
    "LINGXI_CONCURRENCY": "demo:drill=2",
    "LINGXI_QUEUES": "demo",
}
NEW_QUEUE = '''
"""A queue that only the new version has."""
from lingxi.processors.contract import Context, Processor, ProcessorInput


class Nothing(ProcessorInput):
    """Nothing is asked for."""


async def work(context: Context, given: Nothing) -> dict[str, bool]:
    return {"done": True}


GREET = Processor("novel:greet", Nothing, work)
'''


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source folder of the last release, out of this clone's history."""
    folder = tmp_path_factory.mktemp("last-release")
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", LAST_RELEASE, "src"], capture_output=True)
    if archive.returncode:
        cannot(f"the last release ({LAST_RELEASE[:7]}) is needed, and is not in this clone's history")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / "src"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of Lingxi, with its API's address; `env` leads to its source. 0.1.0 had no user of its own in Redis."""

    env: dict[str, str]
    processes: Processes
    token: str
    least_rights: bool

    @asynccontextmanager
    async def running(self, role: str) -> AsyncIterator[Process]:
        start = self.processes.lingxi if self.least_rights else self._start
        process = start(role, env=self.env)
        await asyncio.to_thread(process.wait_for_log, f"{role}_started", 60)
        yield process
        assert await asyncio.to_thread(process.stop) == 0

    def _start(self, role: str, *, env: dict[str, str]) -> Process:
        return self.processes.start([sys.executable, "-m", "lingxi", role], env=env, name=f"old-{role}")

    def client(self) -> httpx.AsyncClient:
        url = f"http://127.0.0.1:{self.env['LINGXI_PORT']}/api/v1"
        return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {self.token}"}, timeout=20)

    async def submit(self, items: int, *, type: str = "demo:drill") -> str:
        """A task of items that take 50 ms each and, in the drill, leave an effect that happens once."""
        one = {"durationMs": 50, "effect": True} if type == "demo:drill" else {}
        async with self.client() as client:
            answer = await client.post("/media-tasks", json={"type": type, "items": [{"input": one}] * items})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def status(self, task: str) -> str:
        async with self.client() as client:
            return str((await client.get(f"/media-tasks/{task}")).json()["status"])

    async def ended(self, *tasks: str) -> None:
        async def all_ended() -> bool:
            return [await self.status(task) for task in tasks] == ["succeeded"] * len(tasks)

        await wait_until(all_ended, 60)


Versions = tuple[Version, Version]


@pytest.fixture
async def versions(
    release: Path, empty_database_url: str, redis_url: str, processes: Processes, tmp_path: Path
) -> Versions:
    """The last release and this version, on a database that the release has migrated."""
    shared = settings(empty_database_url, redis_url, tmp_path, **LIVELY)
    envs = [
        shared | {"LINGXI_PORT": str(free_port()), "PYTHONPATH": source}
        for source in (str(release), str(ROOT / "src"))
    ]
    assert run_lingxi("migrate", env=envs[0]).returncode == 0
    assert (await current_revision(empty_database_url) or "").startswith(ITS_SCHEMA)
    token = await asyncio.to_thread(new_token, envs[0])
    return Version(envs[0], processes, token, False), Version(envs[1], processes, token, True)


async def workers_of(database_url: str, task: str) -> set[str]:
    """The names of the workers that had its items last."""
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch("select distinct worker from media_task_items where task_id = $1", task)
    await connection.close()
    return {row["worker"] for row in rows}


async def until_both_worked(database_url: str, submit: Callable[[], Awaitable[str]]) -> list[str]:
    """Submit until one task's items were done by two workers; returns all that were submitted."""
    tasks: list[str] = []
    while not tasks or len(await workers_of(database_url, tasks[-1])) < 2:
        tasks.append(await submit())
        assert len(tasks) < 10, "only one version takes work"
        await wait_until(lambda: _all_taken(database_url, tasks[-1]), 30)
    return tasks


async def _all_taken(database_url: str, task: str) -> bool:
    connection = await asyncpg.connect(database_url)
    taken = await connection.fetchval(
        "select count(*) = 0 from media_task_items where task_id = $1 and state = 'queued'", task
    )
    await connection.close()
    return bool(taken)


async def test_upgraded_and_rolled_back_while_it_works(versions: Versions, empty_database_url: str) -> None:
    """Expand under the old version's work; both versions at once; the new one alone; back to the old one, on the new schema."""
    old, new = versions
    tasks: list[str] = []
    async with old.running("api"):
        async with old.running("worker"):
            tasks.append(await old.submit(60))
            migrated = await asyncio.to_thread(run_lingxi, "migrate", env=new.env)
            assert migrated.returncode == 0, migrated.stderr
            assert await current_revision(empty_database_url) == head_revision()
            async with new.running("worker"), new.running("api"):
                tasks += await until_both_worked(empty_database_url, lambda: old.submit(30))
                tasks += await until_both_worked(empty_database_url, lambda: new.submit(30))
                await old.ended(*tasks)
                tasks.append(
                    await new.submit(60)
                )  # the old worker stops in the middle of it, and gives back what it has
        async with new.running("worker"), new.running("api"):
            tasks.append(await new.submit(40))
            await new.ended(*tasks)
            tasks.append(await new.submit(60))  # and so does the new one
        async with old.running("worker"):
            tasks.append(await old.submit(20))
            await old.ended(*tasks)
    connection = await asyncpg.connect(empty_database_url)
    items, effects = [
        await connection.fetchval(f"select count(*) from {table}")
        for table in ("media_task_items", "drill_effects")
    ]
    await connection.close()
    assert items == effects
    held = await asyncio.to_thread(run_lingxi, "invariants", env=new.env)
    assert held.returncode == 0, held.stdout


@pytest.mark.slow
async def test_what_waits_for_a_new_queue_waits_uncharged_until_its_version_comes_again(
    versions: Versions, empty_database_url: str, tmp_path: Path
) -> None:
    """Rolled back with work in a queue that the old version does not know: it touches none of it, and does its own."""
    old, new = versions
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "novel.py").write_text(NEW_QUEUE)
    new.env.update(
        PYTHONPATH=f"{new.env['PYTHONPATH']}:{modules}", LINGXI_PROCESSORS="novel", LINGXI_QUEUES="demo,novel"
    )
    assert run_lingxi("migrate", env=new.env).returncode == 0
    async with new.running("api"):
        waiting = await new.submit(3, type="novel:greet")
    async with old.running("api"), old.running("worker"):
        await old.ended(await old.submit(5))
        assert await old.status(waiting) == "queued"
        async with old.client() as client:
            refused = await client.post(
                "/media-tasks", json={"type": "novel:greet", "items": [{"input": {}}]}
            )
            assert refused.status_code == 422
    connection = await asyncpg.connect(empty_database_url)
    assert (
        await connection.fetchval("select max(attempt) from media_task_items where task_id = $1", waiting)
        == 0
    )
    assert await connection.fetchval("select count(*) from outbox_events where last_error is not null") == 0
    await connection.close()
    async with new.running("api"), new.running("worker"):
        await new.ended(waiting)
