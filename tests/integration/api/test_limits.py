"""Bounds on what a request may be: bodies by size and pace, heads, hosts. Nothing is written, and the server goes on."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lingxi.api import server
from lingxi.api.limits import Limits, host_without_port
from tests.integration.api.harness import QUICK_LIMITS, Api, World, changed, open_api, row_counts
from tests.integration.api.raw import exchange, request
from tests.support.waiting import wait_until

TASKS = "/api/v1/media-tasks"
SMALL = changed(QUICK_LIMITS, max_body_bytes=100_000, max_object_bytes=200_000)


@pytest.fixture
async def small(database_url: str, redis_url: str, world: World, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(database_url, redis_url, tmp_path, limits=SMALL) as opened:
        yield opened


def _auth(world: World) -> str:
    return f"Authorization: Bearer {world.ours.editor}"


def _chunks(total: int, size: int = 10_000) -> list[bytes]:
    """`total` bytes in HTTP chunks, without the last one."""
    return [b"%x\r\n%b\r\n" % (size, b" " * size) for _ in range(total // size)]


async def test_declared_too_large(small: Api, world: World, pool: Any) -> None:
    before = await row_counts(pool)
    head = request("POST", TASKS, _auth(world), "Content-Length: 100001")
    answer = await exchange(small.url, [head])
    assert (answer.status, answer.problem["code"], answer.closed) == (413, 41301, True)
    assert "100000" in answer.problem["detail"]
    assert await row_counts(pool) == before


async def test_too_large_without_a_length(small: Api, world: World) -> None:
    head = request("POST", TASKS, _auth(world), "Transfer-Encoding: chunked")
    answer = await exchange(small.url, [head, *_chunks(400_000)])
    assert (answer.status, answer.problem["code"], answer.closed) == (413, 41301, True)


async def test_a_client_that_sends_all_before_it_reads_gets_the_answer(small: Api, world: World) -> None:
    """Closing on unread bytes would reset the connection, and take the answer away."""
    raw = request("POST", TASKS, _auth(world), "Content-Length: 900000", body=b" " * 900_000)
    host, port = small.url.removeprefix("http://").split(":")

    def send_then_read() -> bytes:
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(raw)
            received = b""
            while part := connection.recv(65536):
                received += part
            return received

    assert b'"code":41301' in await asyncio.to_thread(send_then_read)


async def test_an_upload_has_its_own_limit(small: Api, world: World) -> None:
    head = request("PUT", "/api/v1/objects/big", _auth(world), "Transfer-Encoding: chunked")
    fits = await exchange(small.url, [head, *_chunks(200_000), b"0\r\n\r\n"])
    assert fits.status == 201
    answer = await exchange(small.url, [head.replace(b"big", b"bigger"), *_chunks(210_000)])
    assert (answer.status, answer.problem["code"]) == (413, 41301)
    assert "200000" in answer.problem["detail"]
    declared = request("PUT", "/api/v1/objects/big", _auth(world), "Content-Length: 9999999")
    assert (await exchange(small.url, [declared])).status == 413


async def test_the_token_is_looked_at_before_the_body(small: Api) -> None:
    head = request("POST", TASKS, "Authorization: Bearer nonsense", "Content-Length: 99999999")
    answer = await exchange(small.url, [head])
    assert (answer.status, answer.problem["code"], answer.closed) == (401, 40101, True)


_A_SILENT_BODY = ["length", "chunked"]


async def test_a_silent_body(small: Api, world: World, pool: Any) -> None:
    for kind in _A_SILENT_BODY:
        before = await row_counts(pool)
        framing = "Content-Length: 500" if kind == "length" else "Transfer-Encoding: chunked"
        first = b"{" if kind == "length" else b"1\r\n{\r\n"
        answer = await exchange(small.url, [request("POST", TASKS, _auth(world), framing), first])
        assert (answer.status, answer.problem["code"], answer.closed) == (408, 40801, True)
        assert await row_counts(pool) == before


async def test_a_dripping_body(small: Api, world: World) -> None:
    """Each byte comes in time, the whole does not."""

    async def drip() -> AsyncIterator[bytes]:
        yield request("POST", TASKS, _auth(world), "Content-Length: 5000")
        for _ in range(5000):
            yield b" "
            await asyncio.sleep(0.05)

    answer = await exchange(small.url, drip())
    assert (answer.status, answer.problem["code"]) == (408, 40801)


async def test_a_head_that_never_ends(small: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    answer = await exchange(small.url, [b"GET /api/v1/health/live HTTP/1.1\r\nHost: local"])
    assert (answer.status, answer.problem["code"], answer.closed) == (408, 40801, True)
    huge = [b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\nX-Long: ", *([b"x" * 10_000] * 8)]
    answer = await exchange(small.url, huge)
    assert (answer.status, answer.problem["code"], answer.closed) == (400, 40001, True)


async def test_a_slow_head_after_a_whole_request(small: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    host, port = small.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request("GET", "/api/v1/health/live"))
    await reader.readuntil(b'{"status":"ok"}')
    writer.write(b"GET /api/v1/hea")
    async with asyncio.timeout(10):
        rest = await reader.read()
    assert b"408" in rest and b"40801" in rest
    writer.close()


_HEADERS_OVER_THE_LIMIT = [[f"X-{n}: y" for n in range(120)], ["X-Big: " + "y" * 40_000]]


async def test_headers_over_the_limit(small: Api) -> None:
    for headers in _HEADERS_OVER_THE_LIMIT:
        answer = await exchange(small.url, [request("GET", "/api/v1/health/live", *headers)])
        assert (answer.status, answer.problem["code"]) == (400, 40001)


async def test_an_address_over_the_limit(small: Api, world: World) -> None:
    answer = await exchange(small.url, [request("GET", f"{TASKS}?cursor={'a' * 9000}", _auth(world))])
    assert (answer.status, answer.problem["code"]) == (400, 40001)


async def test_what_is_no_http(small: Api) -> None:
    answer = await exchange(small.url, [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"])
    assert (answer.status, answer.problem["code"], answer.closed) == (400, 40001, True)


_HOSTS = [
    ("localhost:3000", 200),
    ("LOCALHOST", 200),
    ("127.0.0.1", 200),
    ("127.1", 400),
    ("evil.example", 400),
    ("", 400),
    ("localhost.evil.example", 400),
]


async def test_hosts(small: Api) -> None:
    for host, status in _HOSTS:
        answer = await exchange(small.url, [request("GET", "/api/v1/health/live", host=host)])
        assert answer.status == status
        if status == 400:
            assert answer.problem["code"] == 40001


async def test_no_host_or_two(small: Api) -> None:
    for lines in ([], ["Host: localhost", "Host: localhost"]):
        raw = "\r\n".join(["GET /api/v1/health/live HTTP/1.1", *lines]).encode() + b"\r\n\r\n"
        assert (await exchange(small.url, [raw])).status == 400


async def test_a_named_host_is_allowed(database_url: str, redis_url: str, tmp_path: Path) -> None:
    async with open_api(database_url, redis_url, tmp_path, allowed_hosts=("lingxi.example",)) as api:
        for host, status in (("lingxi.example", 200), ("localhost", 400), ("127.0.0.1", 200)):
            answer = await exchange(api.url, [request("GET", "/api/v1/health/live", host=host)])
            assert answer.status == status, host


async def test_a_client_that_leaves_costs_nothing(
    small: Api, world: World, pool: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = await row_counts(pool)
    host, port = small.url.removeprefix("http://").split(":")
    for _ in range(5):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(request("POST", TASKS, _auth(world), "Content-Length: 500", body=b'{"type"'))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert (await exchange(small.url, [request("GET", "/api/v1/health/live")])).status == 200
    assert await row_counts(pool) == before
    assert "request_failed" not in capsys.readouterr().err


async def test_an_unread_small_body_keeps_the_connection(small: Api) -> None:
    """A refused request with a small body does not cost the client its connection."""
    host, port = small.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for _ in range(2):
        writer.write(request("POST", TASKS, "Content-Length: 5", body=b"hello"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 401 " in head and b"connection: close" not in head.lower()
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()


def test_default_limits_are_the_products() -> None:
    assert Limits().max_body_bytes == 16 * 1024 * 1024


def test_a_host_is_a_name_or_an_address_and_a_port() -> None:
    for given, host in (("a.example", "a.example"), ("a.example:80", "a.example"), ("[::1]:3000", "::1")):
        assert host_without_port(given) == host
    for given in (
        "",
        ":80",
        "[::1]evil.example",
        "localhost:80@evil.example",
        "localhost:evil",
        "::1",
        "[::1",
    ):
        assert host_without_port(given) == "", given


async def test_who_takes_nothing_of_an_object_gives_the_file_back(
    database_url: str, redis_url: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks and never reads: after a minute (here, a moment) the file is closed, and so is the connection."""
    monkeypatch.setattr("lingxi.api.stored_bytes._SEND_SECONDS", 1.5)
    size = 64 * 1024 * 1024  # more than the sockets between hold

    def opened() -> list[str]:
        names = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)]
        return [name for name in names if name.startswith(str(tmp_path / "objects"))]

    async with open_api(
        database_url, redis_url, tmp_path, limits=Limits(max_object_bytes=size), allowed_hosts=("*",)
    ) as api:
        async with api.client(world.ours.editor) as editor:
            assert (await editor.put("objects/large", content=bytes(size))).status_code == 201
        host, port = api.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(request("GET", "/api/v1/objects/large", _auth(world)))
            await wait_until(opened, 10, "the file is read")
            await wait_until(lambda: not opened(), 10, "the file is closed")
