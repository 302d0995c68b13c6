"""Workers as real processes under real signals: nothing is lost, nothing is done twice, nobody is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import redis.asyncio

from lingxi import names
from tests.fault.conftest import StartWorker
from tests.support.killing import children_of, gone
from tests.support.processes import Process
from tests.support.waiting import wait_until
from tests.support.work import Work, drills


async def started(worker: Process, number: int = 1) -> list[int]:
    """Wait until so many workers have started; their process ids."""
    await wait_until(lambda: len(worker.events("worker_started")) >= number, 30, "the workers start")
    return children_of(worker.pid)


async def ends(worker: Process, timeout_seconds: float = 30) -> int:
    """Wait for the end of a process; its exit code."""
    return await asyncio.to_thread(worker.wait, timeout_seconds)


async def test_killed_after_the_commit_and_before_the_ack(
    work: Work, start_worker: StartWorker, tmp_path: Path
) -> None:
    task_id = await work.submit(*drills(20, effect=True))
    worker = start_worker(LINGXI_FAILPOINTS="worker.after_commit=kill@1")
    await wait_until(lambda: worker.events("worker_died"), 30)
    assert (tmp_path / "worker.after_commit.reached").exists()
    worker.kill_group()
    committed = [item["state"] for item in await work.items(task_id)].count("succeeded")
    assert committed > 0
    start_worker()
    assert (await work.ended(task_id, 40))["status"] == "succeeded"
    assert await work.effects(task_id) == 20
    charged = [item["attempt"] for item in await work.items(task_id)]
    assert charged.count(1) >= committed
    await work.queue_empty()


async def test_killed_between_claim_and_start(work: Work, start_worker: StartWorker) -> None:
    task_id = await work.submit(*drills(5, effect=True))
    worker = start_worker(LINGXI_FAILPOINTS="worker.after_claim=kill@1")
    await wait_until(lambda: worker.events("leases_ended"), 30)
    worker.kill_group()
    start_worker()
    assert (await work.ended(task_id, 40))["status"] == "succeeded"
    assert await work.effects(task_id) == 5
    assert (await work.attempts(task_id))[0]["outcome"] == "lost"


async def test_a_killed_child_is_known_at_once_and_replaced(work: Work, start_worker: StartWorker) -> None:
    """The lease would last for a minute; the parent ends it, and the item runs again."""
    worker = start_worker(LEASE_SECONDS="60", LEASE_RENEW_SECONDS="20", SWEEP_INTERVAL_SECONDS="600")
    (child,) = await started(worker)
    task_id = await work.submit(*drills(3, durationMs=1500, effect=True))
    await work.running(task_id, 3)
    os.kill(child, signal.SIGKILL)
    assert (await work.ended(task_id, 40))["status"] == "succeeded"
    assert {item["attempt"] for item in await work.items(task_id)} == {2}
    assert {item["worker"].split(":")[1] for item in await work.items(task_id)} == {
        str(children_of(worker.pid)[0])
    }
    assert await work.effects(task_id) == 3
    assert worker.events("leases_ended")[0]["count"] == 3
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


async def test_a_poison_item_ends_and_takes_nobody_along(work: Work, start_worker: StartWorker) -> None:
    """It kills its worker each time, beside nine that run for longer than it takes to die."""
    inputs = drills(10, durationMs=400, effect=True)
    inputs[2] = {"durationMs": 200, "crash": "exit"}
    task_id = await work.submit(*inputs)
    worker = start_worker(2)
    task = await work.ended(task_id, 60)
    assert (task["succeeded_items"], task["failed_items"]) == (9, 1)
    items = await work.items(task_id)
    assert (items[2]["state"], items[2]["error_code"], items[2]["attempt"]) == ("failed", "worker_lost", 3)
    assert await work.effects(task_id) == 9
    assert max(item["attempt"] for item in items if item["position"] != 3) <= 2
    await wait_until(lambda: len(worker.events("worker_started")) == 5, 30)  # two, and three replacements
    assert len(worker.events("worker_died")) == 3


async def test_sigterm_gives_back_and_exits_with_zero(work: Work, start_worker: StartWorker) -> None:
    worker = start_worker(2, GRACE_SECONDS="0.3", LINGXI_CONCURRENCY="demo:drill=2")
    pids = await started(worker, 2)
    task_id = await work.submit(*drills(12, durationMs=20_000))
    await work.running(task_id, 4)
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0
    assert set(await work.states(task_id)) == {"queued"}
    assert {item["attempt"] for item in await work.items(task_id)} == {0}
    assert (await work.queue_lengths())["active"] == 0
    assert all(gone(pid) for pid in pids)
    assert len(worker.events("worker_stopped")) == 2


async def test_ctrl_c_in_a_terminal_is_one_stop_in_order(work: Work, start_worker: StartWorker) -> None:
    """The terminal signals the whole group: the children must not take that for a second signal."""
    worker = start_worker()
    await started(worker)
    task_id = await work.submit({"durationMs": 700})
    await work.running(task_id)
    os.killpg(worker.pid, signal.SIGINT)
    assert await ends(worker) == 0
    assert await work.states(task_id) == ["succeeded"]


async def test_a_second_signal_ends_all_at_once(work: Work, start_worker: StartWorker) -> None:
    worker = start_worker(GRACE_SECONDS="60")
    pids = await started(worker)
    task_id = await work.submit({"durationMs": 60_000})
    await work.running(task_id)
    worker.signal(signal.SIGTERM)
    await wait_until(lambda: worker.events("worker_stopping"))
    worker.signal(signal.SIGTERM)
    assert await ends(worker, 5) == 128 + signal.SIGTERM
    await wait_until(lambda: all(gone(pid) for pid in pids), 5)
    start_worker()  # the lease ran out: charged, and done by another
    await work.pool.execute("update media_task_items set input = '{}'")
    assert (await work.ended(task_id, 30))["status"] == "succeeded"


async def test_children_end_with_their_parent(work: Work, start_worker: StartWorker) -> None:
    """The parent is killed: its children stop in order and give back what they run."""
    worker = start_worker(2, GRACE_SECONDS="0.3")
    pids = await started(worker, 2)
    task_id = await work.submit(*drills(4, durationMs=60_000))
    await work.running(task_id, 4)
    worker.kill()
    await wait_until(lambda: all(gone(pid) for pid in pids), 20)
    assert set(await work.states(task_id)) == {"queued"}
    assert {item["attempt"] for item in await work.items(task_id)} == {0}


async def test_a_blocked_loop_does_not_keep_a_process_from_stopping(
    work: Work, start_worker: StartWorker
) -> None:
    """The processor blocks the loop for longer than everything: its attempt is given back by the thread."""
    worker = start_worker(GRACE_SECONDS="0.2")
    await started(worker)
    task_id = await work.submit({"blockMs": 600_000})
    await work.running(task_id)
    worker.signal(signal.SIGTERM)
    assert await ends(worker, 40) == 0
    assert await work.states(task_id) == ["queued"]
    assert (await work.items(task_id))[0]["attempt"] == 0
    assert worker.events("stopped_hard")


async def test_the_same_worker_blocked_for_long_loses_nothing(work: Work, start_worker: StartWorker) -> None:
    """Blocked for three leases, beside a sweep and a second process that would take it."""
    worker = start_worker(2, LEASE_SECONDS="1", LEASE_RENEW_SECONDS="0.3", SWEEP_INTERVAL_SECONDS="0.2")
    await started(worker, 2)
    task_id = await work.submit({"blockMs": 4000, "effect": True})
    assert (await work.ended(task_id, 30))["status"] == "succeeded"
    assert (await work.items(task_id))[0]["attempt"] == 1
    assert await work.effects(task_id) == 1


async def test_one_worker_with_queue_unset_serves_all_nine(work: Work, start_worker: StartWorker) -> None:
    worker = start_worker(QUEUE="")
    await started(worker)
    keys = [names.HEARTBEAT_KEY.format(queue=queue) for queue in names.QUEUES]

    async def all_beat() -> bool:
        async with redis.asyncio.from_url(work.redis_url) as client:
            beats = await client.mget(keys)
            return all(beats) and len({json.loads(beat)["worker"] for beat in beats}) == 1

    await wait_until(all_beat)
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


async def test_an_unknown_queue_stops_the_start_and_says_what_is_known(start_worker: StartWorker) -> None:
    worker = start_worker(QUEUE="media,nonsense")
    assert await ends(worker) != 0
    said = worker.log() + worker.output()
    assert "nonsense" in said
    for known in (*names.GROUPS, *names.QUEUES):
        assert known in said
