"""One worker process with QUEUE unset, seen from outside."""

from __future__ import annotations

import httpx

from lingxi.names import QUEUES
from tests.e2e.conftest import Up


def test_nine_fresh_heartbeats_in_health_and_metrics(up: Up) -> None:
    with httpx.Client(base_url=up.url, trust_env=False) as http:
        health = http.get("/api/v1/health/queues")
        assert health.status_code == 200
        queues = health.json()["queues"]
        assert [queue["queue"] for queue in queues] == list(QUEUES)
        assert all(0 <= queue["heartbeat"]["ageSeconds"] <= 60 for queue in queues)
        lines = http.get("/api/v1/metrics").text.splitlines()
        ages = [
            float(line.split()[1])
            for line in lines
            if line.startswith("lingxi_worker_heartbeat_age_seconds{")
        ]
        assert len(ages) == len(QUEUES)
        assert all(0 <= age <= 60 for age in ages)


def test_tasks_need_a_token(up: Up) -> None:
    answer = httpx.get(f"{up.url}/api/v1/media-tasks", trust_env=False)
    assert answer.status_code == 401
    assert answer.json()["code"] == 40101
