"""Heartbeats, the dispatcher's lock, counts of the last hour, the wipe marker, hints, and what is wrong with a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import redis.asyncio

from lingxi import names
from lingxi.broker.checks import server_report
from lingxi.broker.client import RedisClient, api_client
from lingxi.broker.errors import BrokerUnavailable
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.hints import MAX_QUEUED, HintListener, Hints
from lingxi.broker.lock import DispatchLock
from lingxi.broker.marker import WipeMarker
from lingxi.broker.stats import Finished, FinishedCounts
from tests.support.proxy import CuttingProxy
from tests.support.servers import OwnServer
from tests.support.waiting import wait_until

NOWHERE = "redis://127.0.0.1:1/0"


# ── heartbeats ───────────────────────────────────────────────────────────────────────────────────────────
async def test_a_heartbeat_is_aged_by_the_servers_clock(
    client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeats = Heartbeats(client)
    monkeypatch.setattr("time.time", lambda: 0.0)
    await heartbeats.beat("media:verify", "worker-1")
    ages = await heartbeats.ages(["media:verify", "demo:drill"])
    assert ages["demo:drill"] is None
    assert ages["media:verify"] is not None and 0 <= ages["media:verify"] < 5
    key = "lingxi:worker:heartbeat:media:verify"
    assert 25 < await client.ttl(key) <= 30

    seconds, _ = await client.time()
    await client.set(key, f'{{"worker":"w","atMs":{(seconds - 61) * 1000}}}')
    age = (await heartbeats.ages(["media:verify"]))["media:verify"]
    assert age is not None and 60 < age < 70


@pytest.mark.parametrize("foreign", ["", "x", "{}", "[]", '{"atMs":"x"}', "7"])
async def test_what_is_no_heartbeat_counts_as_none(client: RedisClient, foreign: str) -> None:
    await client.set("lingxi:worker:heartbeat:media:verify", foreign)
    assert await Heartbeats(client).ages(["media:verify"]) == {"media:verify": None}
    assert await Heartbeats(client).ages([]) == {}


# ── the lock ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_one_holder_at_a_time(client: RedisClient) -> None:
    first, second = DispatchLock(client), DispatchLock(client)
    assert await first.acquire()
    assert await client.pttl("lingxi:lock:outbox-dispatch") <= 5_000
    assert not await second.acquire()
    assert not await second.extend()
    await second.release()  # not the holder: nothing happens
    assert not await second.acquire()
    await client.pexpire("lingxi:lock:outbox-dispatch", 1_000)
    assert await first.acquire(), "the holder keeps it"
    assert await client.pttl("lingxi:lock:outbox-dispatch") > 1_000
    await first.release()
    assert await second.acquire()
    assert not await first.extend()


async def test_a_lock_whose_holder_died_runs_out(client: RedisClient) -> None:
    dead, heir = DispatchLock(client, ttl_ms=50), DispatchLock(client)
    assert await dead.acquire()
    await wait_until(heir.acquire, 2)
    await dead.release()
    assert await heir.extend()


# ── counts of the last hour ──────────────────────────────────────────────────────────────────────────────
async def test_counts_of_the_last_hour(client: RedisClient) -> None:
    counts = FinishedCounts(client)
    await counts.add("media:verify", 3, 0)
    await counts.add("media:verify", 0, 1)
    await counts.add("media:verify", 0, 0)
    minute = (await client.time())[0] // 60
    await client.hincrby(f"lingxi:finished:media:verify:{minute - 58}", "completed", 10)
    await client.hincrby(f"lingxi:finished:media:verify:{minute - 61}", "completed", 1000)
    assert await counts.last_hour(["demo:drill", "media:verify"]) == {
        "demo:drill": Finished(0, 0),
        "media:verify": Finished(13, 1),
    }
    assert Finished(13, 1).failure_ratio == pytest.approx(1 / 14)
    assert Finished(0, 0).failure_ratio == 0
    ttls = [
        await client.ttl(key) async for key in client.scan_iter("lingxi:finished:*") if str(minute) in key
    ]
    assert all(7_000 < ttl <= 7_200 for ttl in ttls)


async def test_the_wipe_marker(client: RedisClient) -> None:
    marker = WipeMarker(client)
    assert await marker.read() is None
    await marker.write("a")
    assert await marker.read() == "a"
    await client.flushall()
    assert await marker.read() is None


async def test_without_a_server_all_of_them_say_so(client: RedisClient) -> None:
    away = api_client(NOWHERE)
    for call in (
        lambda: Heartbeats(away).beat("media:verify", "w"),
        lambda: Heartbeats(away).ages(["media:verify"]),
        lambda: DispatchLock(away).acquire(),
        lambda: DispatchLock(away).release(),
        lambda: FinishedCounts(away).add("media:verify", 1, 0),
        lambda: FinishedCounts(away).last_hour(["media:verify"]),
        lambda: WipeMarker(away).read(),
        lambda: server_report(away),
    ):
        async with asyncio.timeout(3):
            with pytest.raises(BrokerUnavailable):
                await call()


# ── hints ────────────────────────────────────────────────────────────────────────────────────────────────
class Heard:
    def __init__(self, url: str) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.connected = 0
        channels = [names.HINT_OUTBOX, names.HINT_TASKS, names.PROGRESS_CHANNEL, names.HINT_ACCESS]
        self.listener = HintListener(
            url, channels, lambda *message: self.messages.append(message), self._count
        )

    def _count(self) -> None:
        self.connected += 1


async def test_hints_arrive(redis_url: str, client: RedisClient) -> None:
    heard, hints = Heard(redis_url), Hints(client)
    heard.listener.start()
    await wait_until(lambda: heard.connected == 1)
    hints.publish_outbox()
    hints.publish_outbox()  # equal ones that wait are one
    hints.publish_tasks(["t1", "t2"])
    hints.publish_progress('{"note":"größer"}'.encode())
    hints.publish_access()
    await wait_until(lambda: len(heard.messages) >= 4)
    assert heard.messages == [
        (names.HINT_OUTBOX, b""),
        (names.HINT_TASKS, b"t1,t2"),
        (names.PROGRESS_CHANNEL, '{"note":"größer"}'.encode()),
        (names.HINT_ACCESS, b""),
    ]
    await hints.close()
    await heard.listener.stop()


async def test_a_listener_comes_back_by_itself(
    redis_url: str, client: RedisClient, proxy_to: Callable[[str], CuttingProxy]
) -> None:
    proxy = proxy_to(redis_url)
    heard, hints = Heard(proxy.url(redis_url)), Hints(client)
    heard.listener.start()
    await wait_until(lambda: heard.connected == 1)
    proxy.refuse()
    await wait_until(lambda: not heard.listener.connected)
    proxy.forward()
    await wait_until(lambda: heard.connected == 2)
    hints.publish_outbox()
    await wait_until(lambda: heard.messages)
    await heard.listener.stop()
    await hints.close()


async def test_hints_without_a_server_cost_nothing_and_stay_bounded() -> None:
    client = api_client(NOWHERE)
    hints = Hints(client)
    for n in range(MAX_QUEUED + 50):
        hints.publish_progress(b"%d" % n)
    assert hints.dropped == 50
    async with asyncio.timeout(3):
        await hints.close()
    assert hints.dropped == MAX_QUEUED + 50
    heard = Heard(NOWHERE)
    heard.listener.start()
    async with asyncio.timeout(3):
        await heard.listener.stop()


async def test_a_listener_notices_a_server_that_fell_silent(
    own_valkey: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingxi.broker.hints._SILENCE_SECONDS", 0.2)
    heard = Heard(own_valkey.url)
    heard.listener.start()
    await wait_until(lambda: heard.connected == 1)
    own_valkey.freeze()
    await wait_until(lambda: not heard.listener.connected)
    own_valkey.thaw()
    await wait_until(lambda: heard.connected == 2)
    await heard.listener.stop()


# ── checks ───────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_good_server_has_no_problems(client: RedisClient) -> None:
    report = await server_report(client)
    assert report.ok, report
    assert report.eviction_policy == "noeviction"
    assert report.server in ("valkey", "redis") and report.version[0].isdigit()


async def test_what_is_wrong_is_said_in_sentences(own_valkey: OwnServer) -> None:
    async with redis.asyncio.from_url(own_valkey.url, decode_responses=True) as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        report = await server_report(client)
        assert not report.ok
        assert report.eviction_policy == "allkeys-lru"
        assert [text.split(":")[0] for text in report.problems] == [
            "The eviction policy is allkeys-lru",
            "This server is a read-only replica",
        ]
        await client.execute_command("REPLICAOF", "NO", "ONE")
        # a hosted server that forbids CONFIG is no crash
        await client.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-config")
    hosted = own_valkey.url.replace("redis://:", "redis://app:").replace(
        own_valkey.url.split(":")[2].split("@")[0], "secret"
    )
    async with redis.asyncio.from_url(hosted, decode_responses=True) as client:
        assert (await server_report(client)).eviction_policy == "allkeys-lru"  # INFO tells it too
        from lingxi.broker.checks import _configured_policy

        assert await _configured_policy(client) is None
