"""Ten or ten thousand watchers cost the same statements; slow ones cost no memory; access, outages and the end are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Any

import pytest
import structlog

from lingxi.domain.errors import PostgresUnavailable
from lingxi.domain.ids import item_id
from lingxi.observability.tallies import BUCKETS_SECONDS
from lingxi.stream.hub import HubConfig
from tests.integration.stream.stage import Stage, Viewer, open_stage
from tests.support.waiting import wait_until

BIG_RESULT = '{"padding":"' + "x" * 20_000 + '"}'


def _stage(pool: Any, database_url: str, **config: Any) -> AbstractAsyncContextManager[Stage]:
    return open_stage(pool, database_url, HubConfig(**config))


@pytest.fixture
async def hinted(pool: Any, database_url: str) -> AsyncIterator[Stage]:
    """The floor is far away: only hints and newcomers make it ask."""
    async with _stage(pool, database_url, poll_seconds=60, close_seconds=1) as stage:
        yield stage


async def _statements(stage: Stage, watchers: int) -> tuple[int, int]:
    """Statements for `watchers` to join one task, and for five changes that all of them see."""
    task, before = await stage.submit(5), len(stage.polls.reads)
    viewers = await asyncio.gather(*(stage.watching(task) for _ in range(watchers)))
    await asyncio.gather(*(viewer.until(lambda v: v.frames) for viewer in viewers))
    joined = len(stage.polls.reads) - before
    for position in range(1, 6):
        await stage.run(task, position)
        stage.hub.hint([task.id])
        await asyncio.gather(*(v.until(lambda v, p=position: v.model.items.get(p - 1)) for v in viewers))
    await asyncio.gather(*(viewer.ended() for viewer in viewers))
    assert not stage.pages.reads
    return joined, len(stage.polls.reads) - before - joined


async def test_watchers_cost_no_statements(hinted: Stage) -> None:
    assert await _statements(hinted, 3) == await _statements(hinted, 300) == (1, 5)


async def test_an_end_is_timed_once_for_all_who_watch(hinted: Stage) -> None:
    """From its commit, by PostgreSQL's clock. Who comes afterwards is not counted; the end of a retry round is one more."""
    task = await hinted.submit(1)
    viewers = [await hinted.watching(task) for _ in range(3)]
    await asyncio.gather(*(viewer.until(lambda v: v.frames) for viewer in viewers))
    await hinted.run(task, 1)
    await hinted.pool.execute(
        "update media_tasks set finished_at = finished_at - interval '7 seconds' where id = $1", task.id
    )
    hinted.hub.hint([task.id])
    await asyncio.gather(*(viewer.ended() for viewer in viewers))
    counts = hinted.hub.counts
    assert sum(counts.ends) == 1 and counts.ends[BUCKETS_SECONDS.index(10)] == 1
    assert 7 <= counts.ends_seconds < 10
    late = await hinted.watching(task)
    await late.ended()
    assert sum(counts.ends) == 1


async def test_one_hint_brings_more_than_one_poll_can_read(
    hinted: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingxi.stream.poll.POLL_ROWS", 20)
    task = await hinted.submit(100)
    viewer = await hinted.watching(task)
    await viewer.until(lambda v: v.frames)
    await hinted.start(task, *range(1, 101))
    hinted.hub.hint([task.id])
    await viewer.until(lambda v: len(v.model.items) == 100)


async def test_no_polls_without_watchers(stage: Stage) -> None:
    task = await stage.submit(2)
    viewer = await stage.watching(task)
    await wait_until(lambda: len(stage.polls.reads) > 3, message="the floor polls")
    viewer.watcher.stop()
    await viewer.ended()
    assert (stage.hub.tasks, stage.hub.watchers) == (0, 0)
    polls = len(stage.polls.reads)
    stage.hub.hint([task.id])
    await asyncio.sleep(4 * stage.config.poll_seconds)
    assert len(stage.polls.reads) == polls


async def test_all_tasks_are_asked_about_in_one_statement(stage: Stage) -> None:
    tasks = [await stage.submit(1) for _ in range(20)]
    await asyncio.gather(*(stage.watching(task) for task in tasks))
    await wait_until(lambda: len(stage.polls.reads[-1]) == 20, message="one statement for twenty tasks")


async def test_a_thousand_resumes_at_once_share_reads(hinted: Stage) -> None:
    task = await hinted.submit(400)
    await hinted.run(task, *range(1, 201))
    ids = [str(n) for n in range(100, 400)]
    viewers = await asyncio.gather(*(hinted.watching(task, last_event_id) for last_event_id in ids))
    for viewer, last_event_id in zip(viewers, ids, strict=True):
        await viewer.until(lambda v: v.last_id == "401")
        first = next(int(f.id) for f in viewer.frames if f.event == "item" and f.id is not None)
        assert first == max(int(last_event_id) + 1, 202)
    assert len(hinted.pages.reads) <= 6


async def test_slow_reader_is_bounded_and_resumes_by_its_sequence(stage: Stage) -> None:
    task = await stage.submit(60)
    slow, quick = await stage.watching(task, "0", held=True), await stage.watching(task, "0")
    for start in range(1, 60, 4):
        await stage.run(task, *range(start, start + 4), result=BIG_RESULT)
        await quick.until(lambda v, p=start: v.model.items.get(p + 2, {}).get("state") == "succeeded")
        stage.hub.hint([task.id])
    await quick.ended()
    assert await stage.differences(task, quick) == []
    (channel,) = stage.hub._channels.values()
    channel.log.trim()
    assert channel.log.size_bytes <= stage.config.log_bytes
    assert slow.raw == []

    slow.gate.set()
    await slow.ended()
    assert await stage.differences(task, slow) == []
    assert max(len(body) for body in slow.raw) < 2 * 32 * 1024
    assert stage.hub.tasks == 0


async def test_live_readers_that_fall_behind_are_told_each_change_once(stage: Stage) -> None:
    task = await stage.submit(40)
    slow = [await stage.watching(task), await stage.watching(task)]  # written to in both ways
    quick = await stage.watching(task)
    await stage.start(task, 37)
    for viewer in slow:
        await viewer.until(lambda v: v.last_id == "2")
        viewer.gate.clear()
    for start in range(1, 37, 4):
        await stage.run(task, *range(start, start + 4), result=BIG_RESULT)
        await quick.until(lambda v, p=start: v.model.items.get(p + 2, {}).get("state") == "succeeded")
    (channel,) = stage.hub._channels.values()
    channel.log.trim()
    for viewer in slow:
        viewer.gate.set()
        await viewer.until(
            lambda v: v.model.summary["counts"]["succeeded"] == 36 and len(v.model.items) == 37
        )
        assert viewer.watcher.times_behind == 1
        numbers = [int(frame.id) for frame in viewer.frames if frame.id is not None]
        assert numbers == sorted(set(numbers))


async def test_counters_that_left_the_log_are_told_all_the_same(pool: Any, database_url: str) -> None:
    """A reader stalls over the last change; then other frames push its `progress` out of the log."""
    async with _stage(pool, database_url, poll_seconds=0.05, log_bytes=1_000, close_seconds=1) as stage:
        task = await stage.submit(2)
        slow, quick = await stage.watching(task), await stage.watching(task)
        await slow.until(lambda v: v.frames)
        slow.gate.clear()
        fences = await stage.start(task, 1)
        await quick.until(lambda v: v.model.summary["counts"]["running"] == 1)  # here it stalls
        await stage.finish(task, fences)
        await quick.until(lambda v: v.model.summary["counts"]["succeeded"] == 1)
        (channel,) = stage.hub._channels.values()
        item = str(item_id(task.id, 2)).encode()
        for done in range(3):
            stage.hub.item_progress(b'{"itemId":"%b","done":%d,"note":"%b"}' % (item, done, b"x" * 900))
            await quick.until(lambda v, done=done: v.frames[-1].data.get("done") == done)
        channel.log.trim()
        slow.gate.set()
        await slow.until(lambda v: v.model.summary["counts"]["succeeded"] == 1 and len(v.model.items) == 1)


async def test_progress_is_coalesced_and_true_in_the_end(stage: Stage) -> None:
    task = await stage.submit(60)
    viewer = await stage.watching(task)
    for position in range(1, 60):
        await stage.run(task, position)
        stage.hub.hint([task.id])
    await viewer.until(lambda v: v.model.summary["counts"]["succeeded"] == 59)
    told_at = [frame.at for frame in viewer.frames if frame.event == "progress"]
    assert len(told_at) >= 2
    assert all(later - earlier > 0.2 for earlier, later in pairwise(told_at))
    assert viewer.events.count("item") > len(told_at)


async def test_an_items_own_progress_reaches_its_watchers(hinted: Stage) -> None:
    task, other = await hinted.submit(2), await hinted.submit(1)
    viewer, stranger = await hinted.watching(task), await hinted.watching(other)
    await viewer.until(lambda v: v.frames)
    for payload in (b"", b"[]", b"nonsense", b'{"itemId":7}', b'{"itemId":"x"}'):
        hinted.hub.item_progress(payload)
    item = str(item_id(task.id, 2))
    for done in range(50):
        hinted.hub.item_progress(b'{"itemId":"%b","index":1,"done":%d,"total":49}' % (item.encode(), done))
    await viewer.until(lambda v: v.frames[-1].data.get("done") == 49)
    told = [frame for frame in viewer.frames if frame.event == "itemProgress"]
    assert 1 < len(told) < 5 and {frame.id for frame in told} == {None}
    assert stranger.events == ["snapshot"]


async def test_an_items_word_does_not_wait_for_the_next_progress(stage: Stage) -> None:
    """Its worker has let it wait already: two waits in a row would be more than 200 ms."""
    task = await stage.submit(2)
    viewer = await stage.watching(task)
    await stage.start(task, 1)
    await viewer.until(lambda v: v.model.summary["counts"]["running"] == 1)
    (channel,) = stage.hub._channels.values()
    stage.hub.item_progress(b'{"itemId":"%b","index":0,"done":1}' % str(item_id(task.id, 1)).encode())
    assert channel._item_progress == {}, "written at once"
    await viewer.until(lambda v: v.frames[-1].event == "itemProgress")


async def test_revoked_access_ends_the_stream_and_no_other(pool: Any, database_url: str) -> None:
    async with _stage(pool, database_url, access_check_seconds=30, close_seconds=1) as stage:
        task = await stage.submit(1)
        mine = [await stage.watching(task, grant="mine") for _ in range(5)]
        theirs = await stage.watching(task, grant="theirs")
        stage.valid = {"theirs"}
        stage.hub.hint_access()
        for viewer in mine:
            await viewer.ended()
        assert [sorted(map(str, grants)) for grants in stage.access_checks] == [["mine", "theirs"]]
        await stage.run(task, 1)
        await theirs.ended()
        assert theirs.events[-1] == "end" and "end" not in mine[0].events


async def test_whoever_comes_while_access_is_checked_is_not_thrown_out(pool: Any, database_url: str) -> None:
    """The check that a revoked link asked for knows nothing of a stream that was opened after it began."""
    async with _stage(pool, database_url, access_check_seconds=30, close_seconds=1) as stage:
        task = await stage.submit(1)
        revoked = await stage.watching(task, grant="revoked")
        asked, answer = asyncio.Event(), asyncio.Event()

        async def check(grants: Any) -> set[Any]:
            asked.set()
            await answer.wait()
            return set(grants) - {"revoked"}

        stage.hub._check_access = check
        stage.hub.hint_access()
        await asked.wait()
        new = await stage.watching(task, grant="new")
        answer.set()
        await revoked.ended()
        await stage.run(task, 1)
        await new.until(lambda v: v.events[-1:] == ["end"])
        assert stage.hub.counts.revoked == 1


async def test_access_is_checked_by_itself_and_survives_an_outage(pool: Any, database_url: str) -> None:
    async with _stage(pool, database_url, access_check_seconds=0.05, close_seconds=1) as stage:
        task = await stage.submit(1)
        viewer = await stage.watching(task)
        await wait_until(lambda: len(stage.access_checks) >= 2, message="checked twice")
        assert viewer.task is not None and not viewer.task.done()
        stage.valid = set()
        await viewer.ended()


async def test_closing_is_told_and_every_stream_ended(stage: Stage) -> None:
    task, behind = await stage.submit(1), await stage.submit(3)
    live = [await stage.watching(task) for _ in range(20)]
    stage.pages.away = True
    waiting = await stage.watching(behind, "0")  # for rows that do not come
    await asyncio.gather(*(viewer.until(lambda v: v.frames) for viewer in [*live, waiting]))
    stuck = await stage.watching(task, held=True)
    await stage.hub.close()
    for viewer in (*live, waiting):
        await viewer.ended()
        assert viewer.events[-1] == "closing" and viewer.frames[-1].id is None
    assert stuck.watcher.cut and stage.hub.watchers == 0
    with pytest.raises(PostgresUnavailable):
        await stage.watching(behind)


async def test_an_outage_of_the_database(pool: Any, database_url: str) -> None:
    """Who watches is kept and kept alive; who comes is refused; when it is back all is told."""
    async with _stage(pool, database_url, poll_seconds=0.05, heartbeat_seconds=0.2, close_seconds=1) as stage:
        task = await stage.submit(3)
        live = await stage.watching(task)
        await live.until(lambda v: v.frames)
        stage.polls.away = stage.pages.away = True
        await stage.run(task, 1)
        with pytest.raises(PostgresUnavailable):
            await stage.watch(task, "99")
        await live.until(lambda v: v.parser.comments >= 2)
        assert live.events == ["snapshot"]
        stage.polls.away = stage.pages.away = False
        await live.until(lambda v: v.model.items.get(0, {}).get("state") == "succeeded")


async def test_a_lost_connection_of_the_poll_is_made_anew(stage: Stage, pool: Any) -> None:
    task = await stage.submit(1)
    viewer = await stage.watching(task)
    await viewer.until(lambda v: v.frames)
    await pool.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'stream-test'"
    )
    await stage.run(task, 1)
    await viewer.ended()
    assert await stage.differences(task, viewer) == []


async def test_one_broken_connection_keeps_no_frames_from_the_others(stage: Stage) -> None:
    task = await stage.submit(1)
    viewers = [await stage.watching(task) for _ in range(9)]
    await asyncio.gather(*(viewer.until(lambda v: v.frames) for viewer in viewers))

    def breaks(body: bytes) -> bool:
        raise RuntimeError("this connection is broken")

    with structlog.testing.capture_logs() as logs:
        viewers[4].watcher._send_now = breaks
        await stage.start(task, 1)
        await viewers[4].ended()
        others = viewers[:4] + viewers[5:]
        await asyncio.gather(*(viewer.until(lambda v: v.last_id == "2") for viewer in others))
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["stream_offer_failed"]


async def test_a_send_that_does_not_return_ends_the_connection(pool: Any, database_url: str) -> None:
    async with _stage(
        pool, database_url, send_timeout_seconds=0.1, heartbeat_seconds=0.2, close_seconds=1
    ) as stage:
        task = await stage.submit(1)
        other = await stage.watching(task)
        stuck = await stage.watching(task, held=True)
        unserved = await stage.hub.open(
            task.id, workspace_id=stage.workspace_id, grant="g", last_event_id=None
        )
        assert unserved is not None
        await stuck.ended()
        await wait_until(
            lambda: stage.hub.watchers == 1, message="also the one that was never served is forgotten"
        )
        assert stuck.watcher.cut and stage.hub.counts.stalled == 2
        assert other.task is not None and not other.task.done()


async def test_heartbeat_only_into_silence(pool: Any, database_url: str) -> None:
    async with _stage(pool, database_url, heartbeat_seconds=0.2, poll_seconds=0.05, close_seconds=1) as stage:
        task = await stage.submit(1)
        viewer: Viewer = await stage.watching(task)
        await viewer.until(lambda v: v.parser.comments == 3)
        assert viewer.last_id == "1" and viewer.events == ["snapshot"]
