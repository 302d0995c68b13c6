"""The six gauges and queue health, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio
from prometheus_client.parser import text_string_to_metric_families

from lingxi.broker.client import api_client
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.stats import FinishedCounts
from lingxi.names import QUEUES
from tests.integration.api.harness import Api, World, batch, open_api

GAUGES = {
    "lingxi_queue_jobs": ("queue", "state"),
    "lingxi_queue_oldest_waiting_seconds": ("queue",),
    "lingxi_queue_failure_ratio": ("queue",),
    "lingxi_worker_heartbeat_age_seconds": ("queue",),
    "lingxi_outbox_pending_total": (),
    "lingxi_outbox_dead_letter_total": (),
}


async def _scrape(api: Api) -> tuple[dict[tuple[str, tuple[str, ...]], float], str]:
    async with api.client() as nobody:
        answer = await nobody.get("metrics")
    assert answer.status_code == 200
    assert answer.headers.get_list("content-type") == ["text/plain; version=0.0.4; charset=utf-8"]
    samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if sample.name in GAUGES:
                assert family.type == "gauge"
                samples[sample.name, tuple(sample.labels[label] for label in GAUGES[sample.name])] = (
                    sample.value
                )
    return samples, answer.text


async def test_an_idle_deployment(api: Api) -> None:
    samples, text = await _scrape(api)
    for queue in QUEUES:
        for state in ("waiting", "active", "completed", "failed", "delayed"):
            assert samples["lingxi_queue_jobs", (queue, state)] == 0
        assert samples["lingxi_queue_oldest_waiting_seconds", (queue,)] == 0
        assert samples["lingxi_queue_failure_ratio", (queue,)] == 0
        assert samples["lingxi_worker_heartbeat_age_seconds", (queue,)] == -1
    assert samples["lingxi_outbox_pending_total", ()] == 0
    assert samples["lingxi_outbox_dead_letter_total", ()] == 0
    assert len(samples) == len(QUEUES) * 8 + 2
    assert "# collector" not in text


async def test_each_gauge_counts_what_it_says(
    api: Api, editor: httpx.AsyncClient, pool: Any, redis_url: str
) -> None:
    task = (await editor.post("media-tasks", json=batch(3))).json()["id"]
    await pool.execute(
        "update media_tasks set created_at = now() - interval '90 seconds' where id = $1", task
    )
    await pool.execute(
        "update media_task_items set queued_at = now() - interval '90 seconds' where task_id = $1", task
    )
    await pool.execute("insert into outbox_events (type, last_error) values ('task.ended', 'dead_lettered')")
    client = api_client(redis_url)
    await Heartbeats(client).beat("demo:drill", "w")
    await FinishedCounts(client).add("demo:drill", 3, 1)
    prefix = "bull:demo-drill:"
    raw = redis.asyncio.from_url(redis_url)
    await raw.rpush(prefix + "wait", "a", "b")
    await raw.rpush(prefix + "paused", "c")
    await raw.zadd(prefix + "prioritized", {"d": 1, "e": 2})
    await raw.rpush(prefix + "active", "f")
    await raw.zadd(prefix + "delayed", {"g": 1})
    await raw.aclose()
    samples, _ = await _scrape(api)
    drill = {
        state: samples["lingxi_queue_jobs", ("demo:drill", state)]
        for state in ("waiting", "active", "completed", "failed", "delayed")
    }
    assert drill == {"waiting": 5, "active": 1, "completed": 3, "failed": 1, "delayed": 1}
    assert 90 <= samples["lingxi_queue_oldest_waiting_seconds", ("demo:drill",)] < 120
    assert samples["lingxi_queue_failure_ratio", ("demo:drill",)] == 0.25
    assert 0 <= samples["lingxi_worker_heartbeat_age_seconds", ("demo:drill",)] < 20
    assert samples["lingxi_worker_heartbeat_age_seconds", ("media:verify",)] == -1
    assert (samples["lingxi_outbox_pending_total", ()], samples["lingxi_outbox_dead_letter_total", ()]) == (
        2,
        1,
    )
    # an item that waits for its next attempt is delayed, and not waiting before that is due
    await pool.execute(
        "update media_task_items set state = 'retrying', attempt = 1, attempt_id = 1, "
        "next_attempt_at = now() + interval '1 hour' where task_id = $1",
        task,
    )
    await pool.execute("update media_tasks set queued_items = 0, retrying_items = 3 where id = $1", task)
    samples, _ = await _scrape(api)
    assert samples["lingxi_queue_jobs", ("demo:drill", "delayed")] == 4
    assert samples["lingxi_queue_oldest_waiting_seconds", ("demo:drill",)] == 0
    await client.aclose()


async def test_a_scrape_costs_redis_the_same_however_long_its_queues_are(api: Api, redis_url: str) -> None:
    """The same commands as often, none of which reads what waits, and no longer answer."""

    async def asked() -> tuple[dict[str, int], int]:
        await client.config_resetstat()
        before = (await client.info("stats"))["total_net_output_bytes"]
        await _scrape(api)
        output = (await client.info("stats"))["total_net_output_bytes"] - before
        calls = {name: told["calls"] for name, told in (await client.info("commandstats")).items()}
        return calls, output

    async with redis.asyncio.from_url(redis_url) as client:
        await _scrape(api)  # connections are open, scripts are known
        empty, empty_bytes = await asked()
        for part in range(100):
            jobs = [f"job-{part}-{number}" for number in range(1_000)]
            await client.rpush("bull:demo-drill:wait", *jobs)
            await client.zadd("bull:demo-drill:prioritized", dict.fromkeys(jobs, 1))
            await client.zadd("bull:demo-drill:delayed", dict.fromkeys(jobs, 1))
        full, full_bytes = await asked()
        samples, _ = await _scrape(api)
    assert samples["lingxi_queue_jobs", ("demo:drill", "waiting")] == 200_000
    assert full == empty
    assert abs(full_bytes - empty_bytes) < 1_000
    reading = {"lrange", "zrange", "zrangebyscore", "smembers", "scan", "keys", "hgetall", "sort"}
    assert {name.removeprefix("cmdstat_") for name in full} & reading <= {"hgetall"}, (
        "the totals, of bounded size"
    )


async def test_requests_are_timed_by_route_never_by_address(api: Api, editor: httpx.AsyncClient) -> None:
    await editor.get("media-tasks/no-uuid")
    await editor.get("nothing/secret-path")
    _, text = await _scrape(api)
    assert (
        'lingxi_http_request_seconds_count{method="GET",route="/api/v1/media-tasks/{taskId}",status="4xx"} 1.0'
        in text
    )
    assert 'route="unknown"' in text and "secret-path" not in text


async def test_queue_health(api: Api, editor: httpx.AsyncClient, redis_url: str) -> None:
    idle = (await editor.get("health/queues")).json()
    assert idle["status"] == "ok"
    assert [queue["queue"] for queue in idle["queues"]] == list(QUEUES)
    assert idle["queues"][0]["heartbeat"] == {"state": "missing", "ageSeconds": None}
    await editor.post("media-tasks", json=batch(1))
    backlog = await editor.get("health/queues")
    assert (backlog.status_code, backlog.json()["status"]) == (200, "degraded")
    drill = next(queue for queue in backlog.json()["queues"] if queue["queue"] == "demo:drill")
    assert drill["status"] == "degraded" and drill["oldestWaitingSeconds"] > 0
    client = api_client(redis_url)
    await Heartbeats(client).beat("demo:drill", "w")
    await client.aclose()
    assert (await editor.get("health/queues")).json()["status"] == "ok"
    async with api.client() as nobody:  # open: it is meant for the internal network
        assert (await nobody.get("health/queues")).status_code == 200


async def test_monitoring_on_a_port_of_its_own(
    database_url: str, redis_url: str, world: World, tmp_path: Path
) -> None:
    async with (
        open_api(database_url, redis_url, tmp_path, serve_monitoring=False, queues=("demo:drill",)) as api,
        httpx.AsyncClient(
            base_url=api.monitoring_url + "/api/v1/", headers={"Host": "prometheus.internal:9"}
        ) as inside,
        api.client(world.ours.viewer) as outside,
    ):
        for path in ("metrics", "health/queues"):
            assert (await outside.get(path)).status_code == 404
            assert (await inside.get(path)).status_code == 200
        assert (await outside.get("health/ready")).status_code == 200
        assert (await inside.get("media-tasks")).status_code == 404
        queues = (await inside.get("health/queues")).json()["queues"]
        assert [queue["queue"] for queue in queues] == ["demo:drill"]


async def test_a_collector_that_fails_is_a_comment_and_a_log_line(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lingxi.api import monitor

    async def broken(*_: Any) -> Any:
        raise RuntimeError("no\nsecrets here")

    monkeypatch.setattr(monitor, "read_database_view", broken)
    samples, text = await _scrape(api)
    names = {name for name, _ in samples}
    assert "lingxi_queue_oldest_waiting_seconds" not in names and "lingxi_outbox_pending_total" not in names
    assert ("lingxi_queue_jobs", ("demo:drill", "delayed")) not in samples
    assert ("lingxi_queue_jobs", ("demo:drill", "waiting")) in samples
    assert "# collector postgresql failed: RuntimeError\n" in text
    assert "metrics_collector_failed" in "".join(capsys.readouterr())
