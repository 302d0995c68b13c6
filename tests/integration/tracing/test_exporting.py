"""Processes that send their spans by OTLP: to a collector that listens, to one that is away, and to one that never answers."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lingxi.embedded.supervise import free_port
from tests.integration.api.harness import make_world
from tests.support.processes import Process, Processes
from tests.support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Collector:
    """`spans`: of one trace, (service, name) each."""

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[str, str]]] = defaultdict(list)
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans[span.trace_id.hex()].append((named["service.name"], span.name))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector()
    yield started
    started.close()


def _start(processes: Processes, endpoint: str, servers: dict[str, str]) -> tuple[Process, Process, str]:
    """An API, a worker of drills, and the API's address."""
    port = free_port()
    env = {
        **servers,
        "LINGXI_PORT": str(port),
        "QUEUE": "demo",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    api, worker = processes.lingxi("api", env=env), processes.lingxi("worker", env=env)
    api.wait_for_log("api_started", 60)
    worker.wait_for_log("worker_started", 60)
    return api, worker, f"http://127.0.0.1:{port}/api/v1/"


async def _one_task(url: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
        body = {"type": "demo:drill", "items": [{"input": {}}]}
        task_id = (await client.post("media-tasks", json=body)).json()["id"]

        async def ended() -> bool:
            return bool((await client.get(f"media-tasks/{task_id}")).json()["finishedAt"])

        await wait_until(ended, 30, "the task ends")


@pytest.fixture
def servers_env(database_url: str, redis_url: str, tmp_path: Path) -> dict[str, str]:
    return {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "LINGXI_DATA_DIR": str(tmp_path / "data")}


async def test_two_processes_write_one_trace(
    processes: Processes, pool: asyncpg.Pool, servers_env: dict[str, str], collector: Collector
) -> None:
    world = await make_world(pool)
    api, worker, url = _start(processes, collector.url, servers_env)
    await _one_task(url, world.ours.editor)
    await wait_until(lambda: ("lingxi-worker", "attempt") in collector.spans[TRACE], 20, "the worker tells")
    assert (worker.stop(), api.stop()) == (0, 0)
    told = set(collector.spans[TRACE])
    assert told >= {
        ("lingxi-api", "POST /api/v1/media-tasks"),
        ("lingxi-api", "dispatch"),
        ("lingxi-worker", "attempt"),
        ("lingxi-worker", "commit"),
    }


async def test_a_collector_that_is_away_or_hangs_delays_nobody(
    processes: Processes, pool: asyncpg.Pool, servers_env: dict[str, str]
) -> None:
    """It takes connections and says nothing; work goes on, and the end of the processes waits two seconds for it at most."""
    world = await make_world(pool)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        api, worker, url = _start(processes, f"http://127.0.0.1:{silent.getsockname()[1]}", servers_env)
        await _one_task(url, world.ours.editor)
        began_at = time.monotonic()
        assert (worker.stop(), api.stop()) == (0, 0)
        assert time.monotonic() - began_at < 15
    for process in (api, worker):
        assert TRACE not in process.log()
