"""Whoever connects, with whatever id, ends with the state in the database, or is told that it could not be resumed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lingxi.conformance.model import Model
from lingxi.domain.errors import NotFound
from lingxi.domain.ids import new_task_id
from lingxi.observability import failpoints
from tests.integration.stream.stage import Stage, Viewer
from tests.support.waiting import wait_until


async def _follow_with_cuts(stage: Stage, task: object, viewer: Viewer | None, rng: random.Random) -> Viewer:
    """Go on from where a viewer was cut, with what it knows, losing the connection after a few frames each time."""
    while viewer is None or not viewer.model.ended:
        limit = rng.choice((1, 1, 2, 3, 7, 40))
        model, last_id = (viewer.model, viewer.last_id) if viewer is not None else (Model(), "0")
        viewer = await stage.watching(task, last_id, model=model, limit=limit)  # type: ignore[arg-type]
        await viewer.ended()
    return viewer


async def test_fresh_stream_tells_the_task_then_changes_then_its_end(stage: Stage) -> None:
    task = await stage.submit(3)
    viewer = await stage.watching(task)
    await viewer.until(lambda v: v.frames)
    fences = await stage.start(task, 1)
    await viewer.until(lambda v: v.last_id == "2")  # the very first change after the snapshot
    await stage.finish(task, fences)
    await stage.run(task, 2, failing=[2])
    await stage.run(task, 3)
    await viewer.ended()

    assert viewer.frames[0].event == "snapshot" and viewer.frames[0].id == "1"
    assert viewer.frames[0].data["cursor"] == 1
    assert viewer.frames[-1].event == "end" and viewer.frames[-1].data["status"] == "partially_failed"
    assert (
        viewer.frames[-1].id == str(viewer.frames[-1].data["cursor"]) == "8"
    )  # 1 + 3 claims + 3 ends + the end
    assert await stage.differences(task, viewer) == []
    numbers = [int(frame.id) for frame in viewer.frames if frame.id is not None]
    assert numbers == sorted(set(numbers))


async def test_fresh_stream_of_a_finished_task_ends_at_once(stage: Stage) -> None:
    task = await stage.submit(1)
    await stage.run(task, 1)
    viewer = await stage.watching(task)
    await viewer.ended()
    assert viewer.events == ["snapshot", "end"]
    assert {frame.id for frame in viewer.frames} == {"4"}


async def test_resume_at_every_id_ends_with_the_state_in_the_database(stage: Stage) -> None:
    task = await stage.submit(6)
    known: dict[str, Model] = {"0": Model()}
    viewer = await stage.watching(task, "0")
    await viewer.until(lambda v: v.last_id == "1")
    known["1"] = viewer.model.copy()
    for position, failing in ((1, ()), (2, (2,)), (3, ()), (4, (4,)), (5, ()), (6, ())):
        for step in ("start", "finish"):
            if step == "start":
                fences = await stage.start(task, position)
            else:
                await stage.finish(task, fences, *failing)
            number = str((await stage.truth(task))[0]["cursor"])
            if position < 6 or step == "start":
                await viewer.until(lambda v, n=number: v.last_id == n)
                known[number] = viewer.model.copy()
    await viewer.ended()
    last = (await stage.truth(task))[0]["cursor"]
    assert set(known) == {
        str(n) for n in range(last - 1)
    }  # the last item's end and the end of the task come together

    for number, model in known.items():
        resumed = await stage.watching(task, number, model=model)
        await resumed.ended()
        assert await stage.differences(task, resumed) == [], f"resumed at {number}"
        ids = [int(frame.id) for frame in resumed.frames if frame.id is not None]
        assert ids == sorted(set(ids)) and ids[0] > int(number), f"resumed at {number}"


async def test_no_content_only_at_the_number_of_a_finished_task(stage: Stage) -> None:
    task = await stage.submit(2)
    assert await stage.watch(task, "1") is not None  # its number, but it has not finished
    await stage.run(task, 1, 2)
    end = (await stage.truth(task))[0]["cursor"]
    assert await stage.watch(task, str(end)) is None
    for number in (*range(end), end + 1):
        assert await stage.watch(task, str(number)) is not None, number


async def test_after_a_retry_the_old_end_resumes_into_the_new_round(stage: Stage) -> None:
    task = await stage.submit(3)
    viewer = await stage.watching(task, "0")
    await stage.run(task, 1, 2, 3, failing=[2])
    await viewer.ended()
    await stage.retry(task)

    again = await stage.watching(task, viewer.last_id, model=viewer.model)
    await again.until(lambda v: v.model.items[1]["state"] == "queued")
    assert await stage.differences(task, again) == []
    await stage.run(task, 2)
    await again.ended()
    assert again.frames[-1].event == "end" and again.frames[-1].data["round"] == 2
    assert [frame.data["index"] for frame in again.frames if frame.event == "item"][-1] == 1
    assert await stage.differences(task, again) == []


async def test_old_end_in_the_log_does_not_end_those_that_resume_from_it(stage: Stage) -> None:
    """A slow viewer keeps the task's log alive over the end and the retry; whoever resumes meanwhile must not meet that end."""
    task = await stage.submit(2)
    slow = await stage.watching(task, held=True)
    viewer = await stage.watching(task, "0")
    await stage.run(task, 1, 2, failing=[2])
    await viewer.ended()
    await stage.retry(task)
    for last_event_id in (viewer.last_id, "3"):
        again = await stage.watching(task, last_event_id, model=viewer.model.copy())
        await again.until(lambda v: v.model.items[1]["state"] == "queued")
        assert again.events[-1] != "end"
    slow.gate.set()


async def test_an_end_that_is_told_after_the_retry_was_read_does_not_end_those_that_know_of_it(
    stage: Stage,
) -> None:
    """The poll reads the end and is slow to tell; meanwhile the task is retried, and a viewer reads so from the rows."""
    task = await stage.submit(2)
    first = await stage.watching(task)
    await first.until(lambda v: v.frames)
    fences = await stage.start(task, 1, 2)
    await first.until(lambda v: len(v.model.items) == 2)
    stage.polls.delivery.clear()
    await stage.finish(task, fences, 2)
    await wait_until(lambda: any(page.subject.final for page in stage.polls.held.values()))
    await stage.retry(task)
    viewer = await stage.watching(task, "0")
    await viewer.until(lambda v: len(v.model.items) == 2 and v.model.items[1]["state"] == "queued")
    stage.polls.delivery.set()
    await first.ended()
    await stage.run(task, 2)
    await viewer.ended()
    assert (viewer.events.count("end"), viewer.model.task["status"]) == (1, "succeeded")
    assert await stage.differences(task, viewer) == []


@pytest.mark.parametrize(
    "given", ["x", "-1", "+1", "1.0", "007", "1 ", "٣", "9" * 19, "9" * 400, "0x10", "1, 2", "\x00", "null"]
)
async def test_an_id_that_we_never_sent_is_answered_with_everything(stage: Stage, given: str) -> None:
    task = await stage.submit(4)
    await stage.run(task, 1, 2)
    viewer = await stage.watching(task, given)
    await viewer.until(lambda v: len(v.model.items) == 4)
    assert viewer.events[:2] == ["reset", "snapshot"]
    assert viewer.frames[0].id == "0" and viewer.frames[1].id is None
    assert await stage.differences(task, viewer) == []


async def test_an_id_from_the_future_is_answered_with_everything(stage: Stage) -> None:
    task = await stage.submit(2)
    first = await stage.watching(task)
    await first.until(lambda v: v.frames)
    await stage.run(task, 1)  # the hub may not have seen these numbers yet
    number = (await stage.truth(task))[0]["cursor"]
    exact = await stage.watching(task, str(number))
    future = await stage.watching(task, str(number + 1))
    await future.until(lambda v: len(v.model.items) == 2)
    assert future.events[:2] == ["reset", "snapshot"]
    await exact.until(lambda v: v.frames)
    assert exact.events[0] == "progress"


async def test_zero_replays_every_item(stage: Stage) -> None:
    task = await stage.submit(1203)  # three pages, most of them untouched
    await stage.run(task, 700, 5)
    viewer = await stage.watching(task, "0")
    await viewer.until(lambda v: len(v.model.items) == 1203)
    assert await stage.differences(task, viewer) == []
    untouched = [
        frame.id for frame in viewer.frames if frame.event == "item" and frame.data["state"] == "queued"
    ]
    assert untouched == [None] * 1200 + ["1"]  # an id only when all of that number are out


async def test_a_cut_at_any_frame_loses_nothing(stage: Stage) -> None:
    task = await stage.submit(5)
    await stage.run(task, 2)
    await stage.start(task, 4)
    whole = await stage.watching(task, "nonsense")
    await whole.until(lambda v: len(v.model.items) == 5)
    frames = len(whole.frames)
    for cut in range(1, frames + 1):
        viewer = await stage.watching(task, "nonsense", limit=cut)
        await viewer.ended()
        again = await stage.watching(task, viewer.last_id, model=viewer.model)
        await again.until(lambda v: len(v.model.items) == 5)
        assert await stage.differences(task, again) == [], f"cut after {cut} frames"


async def test_random_work_random_cuts(stage: Stage) -> None:
    """Thirty clients are cut again and again while items start, fail, are cancelled and retried; all end with the truth."""
    import asyncio

    rng = random.Random(7)
    task = await stage.submit(120)

    async def work() -> None:
        waiting, running = list(range(1, 121)), dict[int, int]()
        rng_work = random.Random(3)
        while waiting or running:
            batch, waiting = waiting[: rng_work.randint(0, 6)], waiting[rng_work.randint(0, 6) :]
            claimed = await stage.start(task, *batch)
            waiting = [position for position in waiting if position not in claimed]
            waiting += [position for position in batch if position not in claimed]
            running |= claimed
            ending = dict(
                rng_work.sample(sorted(running.items()), k=min(len(running), rng_work.randint(0, 6)))
            )
            await stage.finish(task, ending, *(p for p in ending if rng_work.random() < 0.2))
            running = {p: f for p, f in running.items() if p not in ending}
            stage.hub.hint([task.id])
            if not waiting:
                waiting = [p for p in range(1, 121) if (await _state(stage, task, p)) == "queued"]

    results = await asyncio.gather(work(), *(_follow_with_cuts(stage, task, None, rng) for _ in range(30)))
    for viewer in results[1:]:
        assert viewer is not None and await stage.differences(task, viewer) == []


async def _state(stage: Stage, task: object, position: int) -> str:
    query = "select state from media_task_items where task_id = $1 and position = $2"
    return str(await stage.pool.fetchval(query, task.id, position))  # type: ignore[attr-defined]


@pytest.mark.parametrize("last_event_id", [None, "0", "3", "future"])
async def test_nothing_is_lost_between_the_snapshot_and_the_subscription(
    stage: Stage, tmp_path: Path, last_event_id: str | None
) -> None:
    task = await stage.submit(4)
    before = await stage.watching(task, "0")
    await stage.run(task, 1)
    await before.until(lambda v: v.last_id == "3")
    failpoints.arm("stream.between_snapshot_and_subscribe=pause", tmp_path)
    try:
        model = before.model.copy() if last_event_id in (None, "3") else Model()
        viewer = await stage.watching(task, last_event_id, model=model)
        await wait_until(
            (tmp_path / "stream.between_snapshot_and_subscribe.reached").exists, 5, "it waits there"
        )
        await stage.run(task, 2, failing=[2])
        await before.until(lambda v: v.last_id == "5")  # published to those that were there
        (tmp_path / "stream.between_snapshot_and_subscribe.release").touch()
        await viewer.until(lambda v: len(v.model.items) == 4 and v.model.items[1]["state"] == "failed")
        await viewer.until(lambda v: v.model.summary["counts"]["failed"] == 1)
        assert await stage.differences(task, viewer) == []
        await stage.run(task, 3, 4)
        await viewer.ended()
        assert await stage.differences(task, viewer) == []
    finally:
        failpoints.disarm()


async def test_who_comes_while_more_changes_than_a_poll_can_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub is behind the task; newcomers are answered all the same, and miss nothing of what it publishes later."""
    monkeypatch.setattr("lingxi.stream.poll.POLL_ROWS", 20)
    monkeypatch.setattr("lingxi.stream.catch_up.PAGE_ROWS", 30)
    task = await stage.submit(200)
    first = await stage.watching(task, "0")
    await first.until(lambda v: len(v.model.items) == 200)
    fences = await stage.start(task, *range(1, 151))
    await first.until(lambda v: len([f for f in v.frames if f.event == "item"]) >= 220)
    stage.polls.gate.clear()
    fresh = await stage.watching(task)
    await fresh.until(lambda v: v.frames)
    assert fresh.frames[0].data["cursor"] == int(fresh.frames[0].id or "") == 151
    resumed = [
        await stage.watching(task, number, model=first.model.copy()) for number in ("1", "15", "140", "151")
    ]
    listed = (await stage.truth(task))[1]
    stage.polls.gate.set()
    await stage.finish(task, fences, *range(100, 120))
    await stage.run(task, *range(151, 201))
    for viewer in (first, fresh, *resumed):
        await viewer.ended()
    fresh.model.seed(listed)
    for viewer in (first, fresh, *resumed):
        assert await stage.differences(task, viewer) == []


async def test_another_workspaces_task_is_not_there(stage: Stage) -> None:
    task = await stage.submit(1)
    await stage.watching(task)  # also when it is in memory
    other = new_task_id()
    for task_id, workspace_id in ((task.id, other), (new_task_id(), stage.workspace_id)):
        with pytest.raises(NotFound):
            await stage.hub.open(task_id, workspace_id=workspace_id, grant="g", last_event_id=None)
    assert stage.hub.tasks == 1
