"""One trace from the request to the frame: a whole API and a worker in this process, with an exporter in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lingxi.bootstrap.api import _serve_api
from lingxi.bootstrap.worker import open_worker
from lingxi.embedded.supervise import free_port
from lingxi.observability import tracing
from lingxi.services.remember_trace import remember_trace
from lingxi.settings import load_settings
from lingxi.worker.config import new_boot, worker_name
from tests.integration.api.harness import World, make_world
from tests.support.least_rights import as_app
from tests.support.pictures import picture
from tests.support.processes import environment
from tests.support.servers import ROOT
from tests.support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
GIVEN = f"00-{TRACE}-00f067aa0ba902b7-01"


@dataclass
class Traced:
    """A served product, and what it exported."""

    url: str
    world: World
    exporter: InMemorySpanExporter

    def client(self, **headers: str) -> httpx.AsyncClient:
        headers["Authorization"] = f"Bearer {self.world.ours.editor}"
        return httpx.AsyncClient(base_url=f"{self.url}/api/v1/", headers=headers, timeout=30)

    def spans(self, trace: str = TRACE) -> list[ReadableSpan]:
        """Of one trace, in the order of their beginnings."""
        found = [one for one in self.exporter.get_finished_spans() if f"{one.context.trace_id:032x}" == trace]
        return sorted(found, key=lambda one: one.start_time or 0)

    def names(self, trace: str = TRACE) -> list[str]:
        return [one.name for one in self.spans(trace)]

    def chain(self, last: str, trace: str = TRACE) -> list[str]:
        """The names from the newest span named `last` up to the first one, by their parents."""
        spans = {one.context.span_id: one for one in self.spans(trace)}
        one: ReadableSpan | None = next(span for span in reversed(self.spans(trace)) if span.name == last)
        found = []
        while one is not None:
            found.append(one.name)
            one = spans.get(one.parent.span_id) if one.parent is not None else None
        return found


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    memory = InMemorySpanExporter()
    tracing.start("lingxi-test", "", exporter=memory)
    yield memory
    tracing.stop()


@pytest.fixture
async def traced(
    exporter: InMemorySpanExporter, pool: asyncpg.Pool, database_url: str, redis_url: str, tmp_path: Path
) -> AsyncIterator[Traced]:
    """The API with its dispatcher, as `lingxi api` has it, and a worker of drills and photos."""
    settings = load_settings(
        database_url=as_app(database_url),
        redis_url=as_app(redis_url),
        lingxi_data_dir=tmp_path,
        lingxi_port=free_port(),
        queue="demo,photo",
        sweep_interval_seconds=60,
    )
    stop = asyncio.Event()
    async with open_worker(settings, worker_name(new_boot())) as process:
        running = [asyncio.create_task(_serve_api(settings, stop)), asyncio.create_task(process.run())]
        served = Traced(f"http://127.0.0.1:{settings.lingxi_port}", await make_world(pool), exporter)
        async with served.client() as client:
            await wait_until(lambda: _answers(client), 20, "the API answers")
        yield served
        stop.set()
        process.ask_to_stop()
        await asyncio.gather(*running)


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("health/live")).status_code == 200
    except httpx.TransportError:
        return False


@asynccontextmanager
async def _watching(client: httpx.AsyncClient, path: str) -> AsyncIterator[Callable[[str], bool]]:
    """Watch a stream; the value says whether a frame of that name has come."""
    seen: list[str] = []

    async def read() -> None:
        async with client.stream("GET", path) as answer:
            async for line in answer.aiter_lines():
                field, _, value = line.partition(": ")
                seen.append(value if field == "event" else field)

    reading = asyncio.create_task(read())
    await wait_until(lambda: "snapshot" in seen, 10, "the stream is open")
    yield seen.__contains__
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def _submit(client: httpx.AsyncClient, *inputs: dict[str, Any], traceparent: str = GIVEN) -> str:
    body = {"type": "demo:drill", "items": [{"input": one} for one in inputs]}
    answer = await client.post("media-tasks", json=body, headers={"traceparent": traceparent})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def test_an_item_from_the_request_to_the_frame(traced: Traced) -> None:
    async with traced.client() as client:
        task_id = await _submit(client, {"durationMs": 300}, {"durationMs": 300, "fail": "permanent"})
        async with _watching(client, f"media-tasks/{task_id}/events") as seen:
            await wait_until(lambda: seen("end"), 20, "the task ends")
        await wait_until(lambda: traced.names().count("commit") == 2, 10, "both are committed")
        await wait_until(lambda: "frame" in traced.names(), 10, "a frame was told")
    request = "POST /api/v1/media-tasks"
    assert traced.chain("commit") == ["commit", "attempt", "dispatch", request]
    assert traced.chain("frame") == ["frame", request]
    (first,) = (one for one in traced.spans() if one.name == request)
    assert first.parent is not None and f"{first.parent.span_id:016x}" == "00f067aa0ba902b7"
    attempts = [one for one in traced.spans() if one.name == "attempt"]
    assert sorted(str((one.attributes or {})["lingxi.outcome"]) for one in attempts) == [
        "failed",
        "succeeded",
    ]
    assert [one.status.description for one in attempts if not one.status.is_ok].count("drill_failed") == 1
    assert all(0.3 <= _seconds(one) < 20 for one in attempts)
    assert {str((one.attributes or {}).get("lingxi.task", task_id)) for one in traced.spans()} == {task_id}


async def test_a_photo_from_the_upload_to_the_frame(traced: Traced) -> None:
    async with traced.client() as client:
        album = (await client.post("albums", json={"name": "Wedding"})).json()["id"]
        async with _watching(client, f"albums/{album}/events") as seen:
            answer = await client.post(
                f"albums/{album}/photos",
                files=[("files", ("a.jpg", picture("jpeg", 600, 400)))],
                headers={"traceparent": GIVEN},
            )
            assert answer.status_code == 201, answer.text
            await wait_until(lambda: seen("photo"), 30, "the photo is there")
            await wait_until(lambda: "frame" in traced.names(), 10, "its first frame was told")
    request = "POST /api/v1/albums/{albumId}/photos"
    assert traced.chain("commit") == ["commit", "attempt", "dispatch", request]
    assert traced.chain("frame") == ["frame", request]


async def test_a_new_round_belongs_to_the_request_that_asked_for_it(traced: Traced) -> None:
    other = TRACE[::-1]
    async with traced.client() as client:
        task_id = await _submit(client, {"fail": "permanent"})
        await wait_until(lambda: "commit" in traced.names(), 20, "it has failed")
        await client.post(
            f"media-tasks/{task_id}/retry-failed", headers={"traceparent": f"00-{other}-00f067aa0ba902b7-01"}
        )
        await wait_until(lambda: "commit" in traced.names(other), 20, "it has failed again")
    assert traced.chain("commit", other)[-1] == "POST /api/v1/media-tasks/{taskId}/retry-failed"
    assert traced.names().count("attempt") == traced.names(other).count("attempt") == 1


async def test_what_is_not_sampled_leaves_nothing(traced: Traced, pool: asyncpg.Pool) -> None:
    """A caller that says so; and what is no `traceparent` begins a trace of its own."""
    async with traced.client() as client:
        await _ended(client, await _submit(client, {}, traceparent=GIVEN[:-1] + "0"))
        assert traced.spans() == []
        assert await pool.fetchval("select count(*) from traces") == 0
        for garbage in ("", "nonsense", GIVEN.upper(), GIVEN + "-more", "00-" + "0" * 32 + GIVEN[35:]):
            await _submit(client, {}, traceparent=garbage)
        assert await pool.fetchval("select count(distinct substr(traceparent, 4, 32)) from traces") == 5
    assert traced.spans() == []


async def _ended(client: httpx.AsyncClient, task_id: str) -> None:
    async def status() -> bool:
        return bool((await client.get(f"media-tasks/{task_id}")).json()["finishedAt"])

    await wait_until(status, 20, "the task ends")


def _seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


async def test_old_traces_are_dropped_along_the_way(
    pool: asyncpg.Pool, exporter: InMemorySpanExporter
) -> None:
    await pool.execute(
        "insert into traces select gen_random_uuid(), $1, now() - interval '3 d' from generate_series(1, 30)",
        GIVEN,
    )
    span = tracing.begin("request", GIVEN)
    async with pool.acquire() as connection:
        with tracing.within(span):
            await remember_trace(connection, uuid4())
            await remember_trace(connection, uuid4())
    assert await pool.fetchval("select count(*) from traces") == 2


def test_while_it_is_off_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys, lingxi.cli.app, lingxi.bootstrap.api, lingxi.bootstrap.worker, lingxi.bootstrap.dispatcher\n"
        "from lingxi.observability import tracing\n"
        "span = tracing.begin('request', None, 'server')\n"
        "assert span is None and tracing.current() is None and tracing.task_context(span) is None\n"
        "sys.exit('opentelemetry.sdk.trace' in sys.modules or 'opentelemetry.exporter' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT).returncode == 0


def test_without_the_extra_the_start_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.sdk")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(tracing.TracingMissing, match=r"lingxi\[tracing\]"):
        tracing.start("lingxi-api", "http://127.0.0.1:4318")
    assert not tracing.on()
