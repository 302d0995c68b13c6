"""PgBouncer in transaction mode between Lingxi and PostgreSQL: everything works, and no statement relies on a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from lingxi.db.session import connect, create_pool, transaction
from tests.chaos.ground import Ground, System
from tests.chaos.load import Load, light
from tests.chaos.verdict import judge, until_rest
from tests.chaos.watchers import Watchers
from tests.support.eyes import Eyes
from tests.support.pooler import pgbouncer
from tests.support.processes import run_lingxi
from tests.support.servers import Servers


@pytest.fixture
def pooled_url(database_url: str) -> Iterator[str]:
    with pgbouncer(database_url, pool_size=3) as url:
        yield url


async def test_a_statement_outside_a_transaction_gets_one(pooled_url: str) -> None:
    connection = await connect(pooled_url, name="test")
    seen: list[str] = []
    connection.add_query_logger(lambda record: seen.append(record.query))
    await connection.fetchval("select $1::int", 1)
    await connection.fetch("select 2")
    await connection.fetchrow("select 3")
    await connection.execute("select $1::int", 4)
    await connection.executemany("select $1::int", [(5,)])
    async with connection.transaction():
        await connection.fetchval("select 6")
        await connection.execute("select $1::int", 7)
    await asyncio.sleep(0)  # the logger is told a turn of the loop later
    assert [query for query in seen if query[:5] in ("BEGIN", "COMMI")] == ["BEGIN;", "COMMIT;"] * 6
    await connection.close()


async def test_many_share_few_connections(pooled_url: str) -> None:
    pool = await create_pool(pooled_url, name="test", max_size=8)

    async def ask(number: int) -> None:
        for step in range(25):
            async with pool.acquire() as connection:
                assert await connection.fetchval(f"select $1::int + {step}", number) == number + step
                assert await connection.fetchrow(f"select $1::text as it{step}", "x") == ("x",)
                assert len(await connection.fetch(f"select generate_series({step}, $1::int)", step + 2)) == 3
                await connection.execute(
                    f"update deployment set value = value where key = $1 || '{step}'", "none"
                )

    await asyncio.gather(*(ask(number) for number in range(8)))
    async with transaction(pool) as connection:
        await connection.executemany("insert into deployment (key, value) values ($1, '')", [("a",), ("b",)])
        assert await connection.fetchval("select count(*) from deployment where key in ('a', 'b')") == 2
    await pool.close()


async def test_what_hot_connections_set_holds_in_each_transaction_and_not_beyond(pooled_url: str) -> None:
    hot = await connect(pooled_url, name="hot", hot=True)
    cold = await connect(pooled_url, name="cold")
    for _ in range(4):
        assert await hot.fetchval("select current_setting($1)", "plan_cache_mode") == "force_generic_plan"
        assert await cold.fetchval("select current_setting($1)", "plan_cache_mode") == "auto"
    async with hot.transaction(isolation="repeatable_read"):
        assert await hot.fetchval("select current_setting($1)", "enable_seqscan") == "off"
        assert await hot.fetchval("show transaction_isolation") == "repeatable read"
    await hot.close()
    await cold.close()


def test_migrations_want_the_direct_address(pooled_url: str, database_url: str, tmp_path: Path) -> None:
    refused = run_lingxi("migrate", env={"DATABASE_URL": pooled_url, "LINGXI_DATA_DIR": str(tmp_path)})
    assert refused.returncode != 0
    assert "DATABASE_DIRECT_URL" in refused.stderr
    assert "Traceback" not in refused.stderr
    done = run_lingxi(
        "migrate",
        env={
            "DATABASE_URL": pooled_url,
            "DATABASE_DIRECT_URL": database_url,
            "LINGXI_DATA_DIR": str(tmp_path),
        },
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def system(servers: Servers, tmp_path: Path) -> AsyncIterator[System]:
    async with System.open(Ground(servers), tmp_path / "system") as opened:
        with pgbouncer(opened.database_url, pool_size=8) as url:
            opened.settings["DATABASE_URL"] = url
            for role in ("api", "worker"):
                opened.start(role)
            yield opened


async def test_api_workers_and_streams_go_through_it(system: System) -> None:
    """A round of everything: tasks, failures, a cancel, retries, photos, files, four watchers; then all books are checked."""
    async with Eyes.open(system.url, system.token):
        load = Load(system.url, system.token)
        watchers = Watchers(system.port, system.token, load.accepted.subjects, 4, seed=1)
        await load.make_album()
        await load.run(light(1))
        assert await until_rest(system, 60)
        verdict = await judge(system, load.accepted, watchers, 30)
        await load.close()
    assert verdict.ok, verdict.problems
    assert verdict.accepted >= 13
    direct = await asyncpg.connect(system.database_url)
    names: list[Any] = await direct.fetch(
        "select distinct client_port from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and backend_type = 'client backend'"
    )
    await direct.close()
    assert 1 <= len(names) <= 8  # all of it shared the pooler's few connections
