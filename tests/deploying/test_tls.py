"""TLS to PostgreSQL and Redis, with the distribution's servers: all of it works, and nobody else's certificate is believed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest
import redis

from lingxi.cli.exits import Exit
from lingxi.embedded.supervise import free_port
from tests.deploying.conftest import new_token, running, settings
from tests.support.certificates import make_certificates
from tests.support.processes import Processes, run_lingxi
from tests.support.secured import Secured, secured_servers
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_servers(tmp_path_factory.mktemp("secured")) as started:
        yield started


async def test_all_of_it_works_over_tls(secured: Secured, processes: Processes, tmp_path: Path) -> None:
    """Done, and no connection of the application was a plain one."""
    port = free_port()
    env = settings(secured.database_url(), secured.redis_url(), tmp_path, LINGXI_PORT=str(port))
    checked = run_lingxi("check", env=env)
    assert checked.returncode == 0, checked.stdout
    token = new_token(env)
    async with (
        running(processes, env, "api", "worker"),
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}/api/v1", headers={"Authorization": f"Bearer {token}"}
        ) as client,
    ):
        submitted = await client.post(
            "/media-tasks", json={"type": "demo:drill", "items": [{"input": {}}] * 3}
        )
        task = submitted.json()["id"]

        async def done() -> bool:
            return bool((await client.get(f"/media-tasks/{task}")).json()["status"] == "succeeded")

        await wait_until(done, 30)
        connection = await asyncpg.connect(secured.postgres.url)
        plain = await connection.fetch(
            "select a.pid, s.ssl from pg_stat_activity a join pg_stat_ssl s using (pid) where usename = 'lingxi_app'"
        )
        await connection.close()
        assert len(plain) > 3
        assert all(row["ssl"] for row in plain)
        with redis.Redis.from_url(secured.redis.url) as administrator:
            clients = [one for one in administrator.client_list() if one["user"] == "lingxi"]
        assert len(clients) > 3
        assert {one["laddr"].rpartition(":")[2] for one in clients} == {str(secured.tls_port)}


@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_another_certificate_is_refused_in_a_sentence(secured: Secured, tmp_path: Path, wrong: str) -> None:
    """An authority that did not sign it, or a name that the certificate is not for: `check` and what starts say which."""
    other = make_certificates(tmp_path / "other").authority if wrong == "authority" else None
    host = "127.0.0.1" if wrong == "name" else "localhost"
    good = {"DATABASE_URL": secured.database_url(), "REDIS_URL": secured.redis_url()}
    bad = {
        "DATABASE_URL": secured.database_url(host=host, authority=other),
        "REDIS_URL": secured.redis_url(host=host, authority=other),
    }
    for setting, part in (("DATABASE_URL", "PostgreSQL"), ("REDIS_URL", "Redis")):
        env = {**settings("", "", tmp_path), **good, setting: bad[setting]}
        checked = run_lingxi("check", "--json", env=env)
        assert checked.returncode == 1
        findings = json.loads(checked.stdout.splitlines()[-1])["findings"]
        (finding,) = [found for found in findings if found["level"] == "problem"]
        assert finding["part"] == part
        assert "certificate verify failed" in finding["text"]
        assert "must name the authority that signed its certificate" in finding["mend"]
    migrated = run_lingxi("migrate", env={**settings("", "", tmp_path), **bad})
    assert migrated.returncode == Exit.UNREACHABLE
    assert "certificate verify failed" in migrated.stderr


def test_a_process_waits_for_a_certificate_and_says_so(
    secured: Secured, processes: Processes, tmp_path: Path
) -> None:
    """It may be renewed at any moment: no process ends for it, the log names it, and the API is not ready."""
    other, port = make_certificates(tmp_path / "other").authority, free_port()
    env = settings(
        secured.database_url(authority=other), secured.redis_url(), tmp_path, LINGXI_PORT=str(port)
    )
    started = [processes.lingxi(role, env=env) for role in ("api", "worker")]
    for process in started:
        process.wait_for_log("certificate verify failed", 60)
    assert httpx.get(f"http://127.0.0.1:{port}/api/v1/health/ready").status_code == 503
    for process in started:
        assert process.stop() == 0
