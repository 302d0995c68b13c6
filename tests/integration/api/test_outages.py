"""PostgreSQL and Redis go away and come back: 503 with the code, nothing to restart; a submission needs no Redis."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import asyncpg
import pytest

from lingxi.db.migrate import migrate
from tests.integration.api.harness import COMMAND_SECONDS, Api, batch, make_world, open_api, row_counts
from tests.support.servers import OwnServer
from tests.support.waiting import wait_until


async def test_postgresql_goes_away_and_comes_back(
    own_postgres: OwnServer, redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with asyncpg.create_pool(own_postgres.url, min_size=1, max_size=2) as pool:
        world = await make_world(pool)
    async with (
        open_api(own_postgres.url, redis_url, tmp_path) as api,
        api.client(world.ours.editor) as editor,
    ):
        task = (await editor.post("media-tasks", json=batch(1))).json()["id"]
        await asyncio.to_thread(own_postgres.kill)
        for method, path in (
            ("GET", "media-tasks"),
            ("POST", "media-tasks"),
            ("POST", f"media-tasks/{task}/cancel"),
            ("GET", f"media-tasks/{task}/events"),
            ("GET", "objects/x"),
            ("GET", "health/queues"),
            ("GET", "health/ready"),
        ):
            answer = await editor.request(method, path)
            assert (answer.status_code, answer.json()["code"]) == (503, 50003), path
        assert (await editor.get("health/live")).status_code == 200
        await asyncio.to_thread(own_postgres.start)

        async def back() -> bool:
            return (await editor.post("media-tasks", json=batch(1))).status_code == 202

        await wait_until(back)
        assert (await editor.get("health/ready")).json()["status"] == "ready"
    log = "".join(capsys.readouterr())
    assert "postgresql_unavailable" in log
    assert "Traceback" not in log and "request_failed" not in log


async def test_postgresql_hangs(own_postgres: OwnServer, redis_url: str, tmp_path: Path) -> None:
    """Frozen in mid-flight: health and metrics still answer in time, and a request does not wait for ever."""
    async with asyncpg.create_pool(own_postgres.url, min_size=1, max_size=2) as pool:
        world = await make_world(pool)
    async with (
        open_api(own_postgres.url, redis_url, tmp_path) as api,
        api.client(world.ours.editor) as editor,
    ):
        assert (await editor.get("media-tasks")).status_code == 200
        await asyncio.to_thread(own_postgres.freeze)
        try:
            began = time.monotonic()
            metrics, queues, ready = await asyncio.gather(
                *(editor.get(p) for p in ("metrics", "health/queues", "health/ready"))
            )
            seconds = time.monotonic() - began
            submitted = await editor.post("media-tasks", json=batch(1))
            assert time.monotonic() - began < 5 * COMMAND_SECONDS
        finally:
            await asyncio.to_thread(own_postgres.thaw)
        assert (submitted.status_code, submitted.json()["code"]) == (503, 50003)
        assert seconds < 10  # the limit is 2 s
        assert metrics.status_code == 200 and "# collector postgresql failed" in metrics.text
        assert (
            "lingxi_worker_heartbeat_age_seconds" in metrics.text
            and "lingxi_outbox_pending_total" not in metrics.text
        )
        assert (queues.json()["code"], ready.json()["code"]) == (50003, 50003)

        async def back() -> bool:
            return (await editor.get("health/queues")).status_code == 200

        await wait_until(back)


async def test_a_submission_needs_no_redis(
    own_valkey: OwnServer, database_url: str, pool: asyncpg.Pool[asyncpg.Record], tmp_path: Path
) -> None:
    world = await make_world(pool)
    async with (
        open_api(database_url, own_valkey.url, tmp_path) as api,
        api.client(world.ours.editor) as editor,
    ):
        assert (await editor.get("health/ready")).json() == {
            "status": "ready",
            "postgresql": "up",
            "redis": "up",
        }
        await asyncio.to_thread(own_valkey.stop)
        began = time.monotonic()
        submitted = await editor.post("media-tasks", json=batch(3), headers={"Idempotency-Key": "k"})
        cancelled = await editor.post(f"media-tasks/{submitted.json()['id']}/cancel")
        assert time.monotonic() - began < 10  # nobody waits for Redis
        assert (submitted.status_code, cancelled.status_code) == (202, 200)
        assert (await row_counts(pool))["outbox_events"] >= 1
        assert (await editor.get("health/ready")).json() == {
            "status": "ready",
            "postgresql": "up",
            "redis": "down",
        }
        queues = await editor.get("health/queues")
        assert (queues.status_code, queues.json()["code"]) == (503, 50002)
        await _frozen_and_back(own_valkey, api)


async def _frozen_and_back(valkey: OwnServer, api: Api) -> None:
    await asyncio.to_thread(valkey.start)
    async with api.client() as nobody:

        async def well() -> bool:
            return (await nobody.get("health/queues")).status_code == 200

        await wait_until(well)
        await asyncio.to_thread(valkey.freeze)
        try:
            began = time.monotonic()
            metrics, queues = await asyncio.gather(nobody.get("metrics"), nobody.get("health/queues"))
            assert time.monotonic() - began < 10
        finally:
            await asyncio.to_thread(valkey.thaw)
        assert metrics.status_code == 200 and "# collector redis failed" in metrics.text
        assert (
            "lingxi_queue_jobs" not in metrics.text
            and "lingxi_worker_heartbeat_age_seconds" not in metrics.text
        )
        assert "lingxi_outbox_pending_total 2" in metrics.text
        assert queues.json()["code"] == 50002
        await wait_until(well)


async def test_a_database_that_is_not_migrated_is_not_ready(
    empty_database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with open_api(empty_database_url, redis_url, tmp_path) as api, api.client() as nobody:
        answer = await nobody.get("health/ready")
        assert answer.status_code == 503
        assert "migrat" in answer.json()["detail"]


async def test_a_database_that_a_later_version_migrated_is_ready(
    database_url: str, pool: asyncpg.Pool[asyncpg.Record], redis_url: str, tmp_path: Path
) -> None:
    """During an upgrade the old version's processes go on; after going back, too."""
    await pool.execute("update alembic_version set version_num = '9999_of_a_later_version'")
    async with open_api(database_url, redis_url, tmp_path) as api, api.client() as nobody:
        assert (await nobody.get("health/ready")).status_code == 200
    assert await migrate(database_url) == ("9999_of_a_later_version", "9999_of_a_later_version")
