"""`EventStream` on our server and real sockets: who leaves is forgotten, who never reads is bounded, a stop ends all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lingxi.api.server import ApiServer, create_server, listen
from lingxi.api.sse import DirectWriter, end_dead_peers, last_event_id, open_events
from lingxi.conformance.connection import ConnectionLost, StreamConnection
from lingxi.conformance.model import Model
from lingxi.domain.ids import parse_uuid
from lingxi.stream.hub import HubConfig
from tests.integration.stream.stage import Stage, open_stage
from tests.support.waiting import wait_until

BIG_RESULT = '{"padding":"' + "x" * 60_000 + '"}'


class Site:
    """A server with one route, on the stage's hub."""

    def __init__(self, stage: Stage, server: ApiServer, port: int, serving: asyncio.Task[None]) -> None:
        self.stage, self.server, self.serving = stage, server, serving
        self.url = f"http://127.0.0.1:{port}"

    async def open(self, task: Any, last: str | None = None, **how: Any) -> StreamConnection:
        sent = {"Last-Event-ID": last} if last is not None else {}
        return await StreamConnection.open(f"{self.url}/{task.id}", sent, **how)


@pytest.fixture
async def site(stage: Stage) -> AsyncIterator[Site]:
    async with _site(stage) as opened:
        yield opened


@asynccontextmanager
async def _site(stage: Stage) -> AsyncIterator[Site]:
    async def events(request: Request) -> Response:
        task_id = parse_uuid(request.path_params["id"])
        assert task_id is not None
        return await open_events(
            stage.hub,
            task_id,
            workspace_id=stage.workspace_id,
            grant="grant",
            last_event_id=last_event_id(request.headers, request.query_params.get("lastEventId")),
        )

    async with _serving(Starlette(routes=[Route("/{id}", events)])) as (server, port, serving):
        yield Site(stage, server, port, serving)
        await stage.hub.close()


@asynccontextmanager
async def _serving(app: Starlette) -> AsyncIterator[tuple[ApiServer, int, asyncio.Task[None]]]:
    listening = listen("127.0.0.1", 0)
    server = create_server(app, grace_seconds=2)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield server, listening.getsockname()[1], serving
    finally:
        server.should_exit = True
        await serving


async def test_frames_arrive_one_by_one_and_whole(site: Site) -> None:
    task = await site.stage.submit(3)
    async with await site.open(task) as stream:
        model = Model()
        for position in (1, 2, 3):
            await site.stage.run(task, position)
            ended = {"index": position - 1, "state": "succeeded"}
            model.apply(
                await stream.until(lambda f, e=ended: f.event == "item" and e.items() <= f.data.items())
            )
        for frame in await stream.to_the_end():
            model.apply(frame)
        assert stream.finished
    assert model.differences(*await site.stage.truth(task)) == []


async def test_a_client_that_leaves_is_forgotten_at_once(site: Site) -> None:
    task = await site.stage.submit(1)
    streams = [await site.open(task) for _ in range(20)]
    for stream in streams:
        await stream.next()
    assert site.stage.hub.watchers == 20
    for stream in streams[1:]:
        stream.cut()
    await wait_until(lambda: site.stage.hub.watchers == 1, 2, "19 left")
    streams[0].cut()
    await wait_until(lambda: site.stage.hub.tasks == 0, 2, "nothing is watched")


async def test_204_and_the_next_request_on_the_same_connection(site: Site) -> None:
    task = await site.stage.submit(1)
    await site.stage.run(task, 1)
    end = str((await site.stage.truth(task))[0]["cursor"])
    async with await site.open(task, end) as stream:
        assert (stream.status, stream.body) == (204, b"")


async def test_a_reader_that_takes_nothing_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 MB pass by a socket that takes some kilobytes: what the process holds for it stays small, and it misses nothing."""
    held: list[int] = []
    write = DirectWriter.write

    def measured(self: DirectWriter, body: bytes) -> bool:
        held.append(self._transport.get_write_buffer_size())
        return write(self, body)

    monkeypatch.setattr(DirectWriter, "write", measured)
    task = await site.stage.submit(200)
    async with (
        await site.open(task, "0", receive_buffer_bytes=4096) as stalled,
        await site.open(task, "0") as quick,
    ):
        for start in range(1, 201, 10):
            await site.stage.run(task, *range(start, start + 10), result=BIG_RESULT)
        stalled.widen()
        for stream in (quick, stalled):
            model = Model()
            for frame in await stream.to_the_end():
                model.apply(frame)
            assert model.differences(*await site.stage.truth(task)) == []
    assert max(held) < 64 * 1024 + 2 * 100_000
    await wait_until(lambda: site.stage.hub.watchers == 0, 5, "both have ended")
    assert site.stage.hub.counts.fell_behind >= 1


async def test_a_reader_that_takes_nothing_for_too_long_is_cut_off(
    pool: Any, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = HubConfig(poll_seconds=0.05, send_timeout_seconds=0.3, heartbeat_seconds=0.4)
    async with open_stage(pool, database_url, config) as stage, _site(stage) as site:
        task = await stage.submit(100)
        async with await site.open(task, "0", receive_buffer_bytes=4096) as stalled:
            for start in range(1, 100, 10):
                await stage.run(task, *range(start, start + 10), result=BIG_RESULT)
            await wait_until(lambda: stage.hub.watchers == 0, 20, "it was cut off")
            with pytest.raises(ConnectionLost):
                await stalled.to_the_end()
        assert stage.hub.counts.stalled == 1
    assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


async def test_closing_the_hub_lets_the_server_end(site: Site) -> None:
    task = await site.stage.submit(1)
    streams = [await site.open(task) for _ in range(50)]
    for stream in streams:
        await stream.next()
    await site.stage.hub.close()
    site.server.should_exit = True
    for stream in streams:
        assert [frame.event for frame in await stream.to_the_end()] == ["closing"]
        assert stream.finished
    async with asyncio.timeout(2):
        await site.serving


async def test_a_stream_that_cannot_be_sent_leaves_no_traceback(site: Site) -> None:
    """The client is gone before the first byte."""
    task = await site.stage.submit(1)
    with structlog.testing.capture_logs() as logs:
        for _ in range(10):
            _, writer = await asyncio.open_connection("127.0.0.1", int(site.url.rsplit(":", 1)[1]))
            writer.write(f"GET /{task.id} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            writer.transport.abort()
        async with await site.open(task) as stream:
            await stream.next()
            await wait_until(lambda: site.stage.hub.watchers == 1, 5, "the others are forgotten")
    assert [line for line in logs if line["log_level"] in ("error", "warning")] == []


async def test_the_kernel_ends_peers_that_acknowledge_nothing() -> None:
    """A peer with a full window that never reads: the connection ends by itself. (What is accepted inherits the option.)"""
    listening = listen("127.0.0.1", 0)
    end_dead_peers([listening], seconds=1)
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), sock=listening)
    async with server:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, listening.getsockname())
        writer = await accepted.get()
        option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert option == 1_000
        writer.write(bytes(20_000_000))
        with pytest.raises(OSError, match=r"timed out|reset|Connection lost"):
            async with asyncio.timeout(30):
                await writer.drain()
        client.close()
