"""Streams through a proxy that nobody set up for them: nginx as it comes, with gzip on (docs/cases.md)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from lingxi.embedded.supervise import free_port
from tests.cases.test_tasks import submit
from tests.integration.api.harness import Api, World
from tests.support.programs import need_program
from tests.support.waiting import wait_until
from tests.support.work import Work

READ_TIMEOUT_SECONDS = 20


@asynccontextmanager
async def nginx_before(api: Api, folder: Path, packed_types: str = "text/html") -> AsyncIterator[str]:
    """Its defaults: it buffers, speaks HTTP/1.0 to the inside, and gives up after some silence."""
    port = free_port()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"{'user root;' if os.geteuid() == 0 else ''}\ndaemon off;\npid {folder}/nginx.pid;\n"
        f"error_log {folder}/error.log;\nevents {{}}\nhttp {{\n{folders}"
        f"access_log off;\ngzip on;\ngzip_types {packed_types};\ngzip_proxied any;\n"
        f"proxy_read_timeout {READ_TIMEOUT_SECONDS}s;\nserver {{\nlisten 127.0.0.1:{port};\n"
        f"location / {{\nproxy_pass {api.url};\nproxy_set_header Host $http_host;\n}}\n}}\n}}\n"
    )
    program = need_program("nginx", "to stand in front of an API")
    process = subprocess.Popen([program, "-p", str(folder), "-c", f"{folder}/nginx.conf"])
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as client:

            async def answers() -> bool:
                try:
                    return (await client.get(url + "/api/v1/health/live")).status_code == 200
                except httpx.TransportError:
                    return False

            assert await wait_until(answers, 20)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize(
    "packed_types", ["text/html", "*"], ids=["as nginx comes", "told to pack everything"]
)
async def test_each_frame_passes_at_once(
    work: Work, api: Api, world: World, tmp_path: Path, packed_types: str
) -> None:
    """C41. The client would take gzip, and the proxy would like to gather; where it packs all the same, it keeps nothing back."""
    headers = {"Authorization": f"Bearer {world.ours.editor}", "Accept-Encoding": "gzip"}
    async with (
        nginx_before(api, tmp_path, packed_types) as url,
        httpx.AsyncClient(base_url=url + "/api/v1/", headers=headers, timeout=30) as client,
    ):
        task_id = await submit(client, {}, {})
        async with client.stream("GET", f"media-tasks/{task_id}/events") as answer:
            assert "no-transform" in answer.headers["cache-control"]
            assert answer.headers.get("content-encoding") == ("gzip" if packed_types == "*" else None)
            lines = answer.aiter_lines()
            async for line in lines:
                if line == "event: snapshot":
                    break
            assert (await client.post(f"media-tasks/{task_id}/cancel")).status_code == 200
            events = [line async for line in lines if line.startswith("event: ")]
            assert events[-1] == "event: end"


@pytest.mark.slow
async def test_a_heartbeat_comes_before_the_proxy_gives_up(
    work: Work, api: Api, world: World, tmp_path: Path
) -> None:
    """C53. A task waits for a worker that does not come: comments alone keep the stream, and move no number."""
    headers = {"Authorization": f"Bearer {world.ours.editor}"}
    async with (
        nginx_before(api, tmp_path) as url,
        httpx.AsyncClient(base_url=url + "/api/v1/", headers=headers, timeout=60) as client,
    ):
        task_id = await submit(client, {})
        began, ids, beats = time.monotonic(), [], 0
        async with client.stream("GET", f"media-tasks/{task_id}/events") as answer:
            async for line in answer.aiter_lines():
                ids += [line] if line.startswith("id:") else []
                beats += line.startswith(": heartbeat")
                if time.monotonic() - began > 2 * READ_TIMEOUT_SECONDS:
                    break
        assert beats >= 2
        assert len(ids) == 1
