"""Redis goes away, comes back, or says that it cannot serve: told as such, quickly, and over by itself."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from lingxi.broker.client import api_client, ping, worker_client
from lingxi.broker.connection import RawConnection
from lingxi.broker.errors import BrokerTimeout, BrokerUnavailable
from lingxi.broker.link import Link
from lingxi.broker.queue import BullQueue, Job
from lingxi.broker.resp import command
from tests.integration.broker.conftest import MakeQueue
from tests.support.programs import need_program
from tests.support.proxy import CuttingProxy
from tests.support.servers import OwnServer, new_valkey
from tests.support.waiting import wait_until


async def add(queue: BullQueue, job_id: str) -> None:
    await queue.add_many([Job(job_id, b"{}")], priority=0, timestamp_ms=1)


@pytest.fixture
async def own_client(own_valkey: OwnServer) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.from_url(own_valkey.url, decode_responses=True) as client:
        yield client


async def test_a_stopped_server_fails_calls_at_once_and_works_again_within_two_seconds(
    own_valkey: OwnServer, make_queue: MakeQueue
) -> None:
    queue = make_queue(url=own_valkey.url)
    await add(queue, "1-a")
    own_valkey.stop()
    for _ in range(50):
        started = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            await add(queue, "1-b")
        assert time.monotonic() - started < 6
        await asyncio.sleep(0.02)
    own_valkey.start()
    started = time.monotonic()
    while True:
        try:
            held = await queue.take(5)
            break
        except BrokerUnavailable:
            await asyncio.sleep(0.02)
    assert time.monotonic() - started < 10
    assert [d.job_id for d in held] == ["1-a"], "what was added before the outage is there after it"


async def test_a_frozen_server_times_out(own_valkey: OwnServer, make_queue: MakeQueue) -> None:
    queue = make_queue(url=own_valkey.url, timeout_seconds=0.3)
    await add(queue, "1-a")
    own_valkey.freeze()
    try:
        started = time.monotonic()
        with pytest.raises(BrokerTimeout):
            await add(queue, "1-b")
        with pytest.raises(BrokerUnavailable):  # the next connection gets no greeting either
            await add(queue, "1-b")
        assert time.monotonic() - started < 10
    finally:
        own_valkey.thaw()
    await wait_until(lambda: _adds(queue))


async def _adds(queue: BullQueue) -> bool:
    try:
        await add(queue, "1-c")
    except BrokerUnavailable:
        return False
    return True


async def test_a_lost_connection_is_told_to_everybody_who_waits(
    redis_url: str, proxy_to: Callable[[str], CuttingProxy], make_queue: MakeQueue
) -> None:
    proxy = proxy_to(redis_url)
    queue = make_queue(url=proxy.url(redis_url))
    await queue.counts()
    waiting = asyncio.create_task(queue.wait_for_work(30))
    await wait_until(lambda: proxy.accepted == 2)
    proxy.stall()
    calls = [asyncio.create_task(queue.counts()) for _ in range(3)]
    await asyncio.sleep(0)
    proxy.cut()
    outcomes = await asyncio.gather(waiting, *calls, return_exceptions=True)
    assert all(isinstance(outcome, BrokerUnavailable) for outcome in outcomes), outcomes
    assert len({id(outcome) for outcome in outcomes}) == 4
    proxy.forward()
    await wait_until(lambda: _adds(queue))


async def test_a_call_that_was_cancelled_does_not_shift_the_replies_of_others(redis_url: str) -> None:
    connection = await RawConnection.connect(redis_url, timeout_seconds=5)
    first = asyncio.create_task(connection.call(command(b"ECHO", b"one")))
    second = asyncio.create_task(connection.call(command(b"ECHO", b"two") + command(b"ECHO", b"three"), 2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == [b"two", b"three"]
    await connection.close()
    with pytest.raises(BrokerUnavailable):
        await connection.call(command(b"PING"))


@pytest.mark.parametrize("verb", ["take", "finish_many"])
async def test_jobs_that_arrive_for_a_caller_who_was_cancelled_go_back(
    redis_url: str, proxy_to: Callable[[str], CuttingProxy], make_queue: MakeQueue, verb: str
) -> None:
    proxy, other = proxy_to(redis_url), make_queue("other")
    leaving = make_queue("leaving", url=proxy.url(redis_url))
    await leaving.add_many([Job(f"1-{n}", b"{}") for n in range(5)], priority=1, timestamp_ms=1)
    held = await leaving.take(1)
    proxy.stall()
    call = leaving.take(4) if verb == "take" else leaving.finish_many(held, fetch_next=True)
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    proxy.forward()
    await leaving.close()
    counts = await other.counts()
    assert (counts.waiting, counts.active) == ((4, 1) if verb == "take" else (4, 0))


async def test_a_call_has_its_own_time_out(redis_url: str) -> None:
    connection = await RawConnection.connect(redis_url, timeout_seconds=0.1)
    assert await connection.call(command(b"BLPOP", b"nothing", b"0.3"), timeout_seconds=2) == [None]
    with pytest.raises(BrokerTimeout):
        await connection.call(command(b"BLPOP", b"nothing", b"0.3"))
    assert not connection.is_open
    await connection.close()


async def test_a_wrong_password_is_an_outage_not_a_crash(
    own_client: redis.asyncio.Redis, own_valkey: OwnServer
) -> None:
    wrong = own_valkey.url.replace("@", "wrong@")
    with pytest.raises(BrokerUnavailable, match="WRONGPASS"):
        await RawConnection.connect(wrong)
    with pytest.raises(BrokerUnavailable):
        await ping(api_client(wrong))


async def test_a_logical_database_and_a_name(redis_url: str) -> None:
    url = redis_url.rpartition("/")[0] + "/3"
    connection = await RawConnection.connect(url, name="my name")
    (info,) = await connection.call(command(b"CLIENT", b"INFO"))
    assert b" db=3 " in info and b"name=my_name " in info
    await connection.close()


async def test_nobody_listens() -> None:
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        await RawConnection.connect("redis://127.0.0.1:1/0")
    with pytest.raises(BrokerUnavailable):
        await RawConnection.connect("unix:///nowhere/redis.sock")
    with pytest.raises(BrokerUnavailable):
        await ping(worker_client("redis://127.0.0.1:1/0"))
    assert time.monotonic() - started < 10


async def test_a_long_outage_does_not_make_the_next_try_late() -> None:
    tries = 0

    async def refuse(name: str) -> RawConnection:
        nonlocal tries
        tries += 1
        raise BrokerUnavailable("refused")

    link = Link(refuse, "x")
    loop = asyncio.get_running_loop()
    for expected in range(1, 60):
        link._not_before = 0.0  # as if the pause were over
        with pytest.raises(BrokerUnavailable, match="refused"):
            await link.get()
        assert tries == expected
        assert 0 < link._not_before - loop.time() <= 1.0
        with pytest.raises(BrokerUnavailable, match="refused"):
            await link.get()  # fails at once, without another try
        assert tries == expected


async def test_over_tls(redis_url: str, tmp_path: Path) -> None:
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    made += [
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        f"{tmp_path}/key",
        "-out",
        f"{tmp_path}/cert",
    ]
    need_program("openssl", "to make a certificate")
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    parts = urlsplit(redis_url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(parts.hostname, parts.port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
                sink.close()

        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        secure = f"rediss://:{parts.password}@127.0.0.1:{port}/0"
        connection = await RawConnection.connect(f"{secure}?ssl_ca_certs={tmp_path}/cert")
        assert await connection.call(command(b"PING")) == [b"PONG"]
        await connection.close()
        with pytest.raises(BrokerUnavailable, match="certificate"):
            await RawConnection.connect(secure)


# ── the server's own words ───────────────────────────────────────────────────────────────────────────────
async def test_out_of_memory(
    own_client: redis.asyncio.Redis, own_valkey: OwnServer, make_queue: MakeQueue
) -> None:
    queue = make_queue(url=own_valkey.url)
    await add(queue, "1-a")
    await own_client.config_set("maxmemory", "1mb")
    with pytest.raises(BrokerUnavailable, match="OOM"):
        await add(queue, "1-b")
    await own_client.config_set("maxmemory", "0")
    await add(queue, "1-b")
    assert await queue.waiting() == 2


async def test_read_only_replica(
    own_client: redis.asyncio.Redis, own_valkey: OwnServer, make_queue: MakeQueue
) -> None:
    queue = make_queue(url=own_valkey.url)
    await add(queue, "1-a")
    await own_client.execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(BrokerUnavailable, match="READONLY"):
        await add(queue, "1-b")
    await own_client.execute_command("REPLICAOF", "NO", "ONE")
    await add(queue, "1-b")


async def test_busy_with_somebody_elses_script(
    own_client: redis.asyncio.Redis, own_valkey: OwnServer, make_queue: MakeQueue
) -> None:
    queue = make_queue(url=own_valkey.url)
    await add(queue, "1-a")
    await own_client.config_set("busy-reply-threshold", "50")
    other = redis.asyncio.from_url(own_valkey.url)
    endless = asyncio.create_task(other.eval("while true do end", 0))
    await wait_until(lambda: _is_busy(own_client))
    with pytest.raises(BrokerUnavailable, match="BUSY"):
        await add(queue, "1-b")
    await own_client.script_kill()
    await asyncio.gather(endless, return_exceptions=True)
    await other.aclose()
    await add(queue, "1-b")


async def _is_busy(client: redis.asyncio.Redis) -> bool:
    try:
        await client.ping()
    except redis.exceptions.ResponseError as error:
        return "BUSY" in str(error)
    return False


async def test_still_loading_its_file(tmp_path: Path, make_queue: MakeQueue) -> None:
    """A server that reads its file after a start takes connections and answers LOADING."""
    folder = tmp_path / "slow"
    with new_valkey(folder, appendonly="no", dbfilename="dump.rdb") as server:
        async with redis.asyncio.from_url(server.url) as client:
            await client.mset({f"key-{n}": "x" for n in range(2000)})
            await client.save()
    settings = {"key-load-delay": "1000", "loading-process-events-interval-bytes": "1024"}
    slow = new_valkey(folder, appendonly="no", dbfilename="dump.rdb", **settings)
    starting = asyncio.create_task(asyncio.to_thread(slow.start))
    try:
        await wait_until(lambda: slow.pid is not None)
        queue = make_queue(url=slow.url)
        words = set()

        async def served() -> bool:
            try:
                await queue.counts()
            except BrokerUnavailable as error:
                words.add(str(error).split()[0])
                return False
            return True

        await wait_until(served, 20)
        assert "LOADING" in words
    finally:
        await starting
        await asyncio.to_thread(slow.stop)
