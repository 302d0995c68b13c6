"""Sync processors: each item in a child that can be killed; and what a scratch folder may take, on the loop and there."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from lingxi.processors.contract import Context, Processor, ProcessorInput
from lingxi.worker.process import WorkerProcess
from tests.support.killing import gone
from tests.support.processors import OBEY, leftovers
from tests.support.waiting import wait_until
from tests.support.work import Work


@pytest.fixture
async def worker(work: Work, tmp_path: Path) -> AsyncIterator[WorkerProcess]:
    work.processors = {"child:obey": OBEY, "demo:filler": FILLER}
    environment = {"PATH": os.environ["PATH"], "KEPT": "yes"}
    served = {"queues": ("child:obey", "demo:filler"), "scratch_root": tmp_path / "scratch"}
    async with work.worker(child_environment=environment, **served) as process:
        yield process


@pytest.fixture
async def work(pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> AsyncIterator[Work]:
    """With a dispatcher that knows the queues of these processors."""
    started = await Work.begin(pool, database_url, redis_url)
    async with started.dispatching("child:obey", "demo:filler"):
        yield started


class Nothing(ProcessorInput):
    pass


async def _fill(context: Context, given: Nothing) -> None:
    """Writes more than it may, and waits."""
    (context.scratch() / "big").write_bytes(os.urandom(1 << 20))
    await asyncio.sleep(3600)


FILLER = Processor("demo:filler", Nothing, _fill, scratch_bytes=1 << 19)


async def obeyed(work: Work, what: str, number: int = 0, **more: Any) -> dict[str, Any]:
    """The one item of a task, when it is final."""
    task_id = await work.submit({"what": what, "number": number}, type="child:obey", max_attempts=2, **more)
    await work.ended(task_id, 60)
    return await item(work, task_id)


async def item(work: Work, task_id: UUID) -> dict[str, Any]:
    (row,) = await work.items(task_id)
    return {**dict(row), "result": json.loads(row["result"]) if row["result"] else None}


async def test_an_item_runs_in_a_child_that_serves_the_next_one_too(
    work: Work, worker: WorkerProcess
) -> None:
    first, second = await obeyed(work, "answer"), await obeyed(work, "answer")
    assert first["result"]["pid"] == second["result"]["pid"] != os.getpid()
    assert first["result"]["key"] != second["result"]["key"]
    seen = (await obeyed(work, "environment"))["result"]["names"]
    assert "KEPT" in seen
    assert not {"DATABASE_URL", "REDIS_URL", "LINGXI_SECRET_KEY"} & set(seen)


@pytest.mark.parametrize(
    ("what", "number", "state", "code", "attempts"),
    [
        ("die", 0, "succeeded", None, ["retrying"]),
        ("die", 1, "failed", "crashed", ["retrying", "failed"]),
        ("exit", 0, "failed", "crashed", ["retrying", "failed"]),
        ("quit", 0, "failed", "internal_error", ["retrying", "failed"]),
        ("eat", 3 << 30, "failed", "out_of_memory", ["failed"]),
        ("permanent", 0, "failed", "no_good", ["failed"]),
        ("transient", 0, "succeeded", None, ["retrying"]),
        ("bug", 0, "failed", "internal_error", ["retrying", "failed"]),
        ("fill", 8, "failed", "scratch_full", ["failed"]),
        ("fork", 0, "failed", "crashed", ["retrying", "failed"]),
        ("chatter", 0, "succeeded", None, []),
        ("unspeakable", 0, "failed", "no_good", ["failed"]),
        ("nameless", 0, "failed", "internal_error", ["retrying", "failed"]),
    ],
)
async def test_how_a_child_ends_its_item(
    work: Work,
    worker: WorkerProcess,
    tmp_path: Path,
    what: str,
    number: int,
    state: str,
    code: str,
    attempts: list[str],
) -> None:
    ended = await obeyed(work, what, number)
    assert (ended["state"], ended["error_code"]) == (state, code)
    assert [one["outcome"] for one in await work.attempts(ended["task_id"])] == attempts
    assert leftovers(tmp_path / "scratch") == []
    if what == "bug":
        assert "ZeroDivision" not in ended["error_message"], "a traceback is for the log"


async def test_what_a_processor_forks_is_not_taken_for_it(work: Work, worker: WorkerProcess) -> None:
    for _ in range(3):  # a word of the fork's would be taken for the next item's
        result = (await obeyed(work, "fork-and-return"))["result"]
        assert result["parent"] == os.getpid()
    assert (await obeyed(work, "answer"))["result"]["pid"] == result["pid"]


async def test_what_a_processor_starts_ends_with_its_child(work: Work, tmp_path: Path) -> None:
    work.processors = {"child:obey": OBEY}
    async with work.worker(queues=("child:obey",), scratch_root=tmp_path / "scratch"):
        left = (await obeyed(work, "leave"))["result"]["left"]
        assert Path(f"/proc/{left}").exists()
    await wait_until(lambda: gone(left), message="it ends")


async def test_the_end_of_its_time_kills_the_child(work: Work, tmp_path: Path) -> None:
    work.processors = {"child:obey": _with_limit(1.0)}
    async with work.worker(queues=("child:obey",), scratch_root=tmp_path / "scratch"):
        ended = await obeyed(work, "hang")
    assert (ended["state"], ended["error_code"], ended["attempt"]) == ("failed", "deadline_exceeded", 2)


async def test_a_notice_comes_before_the_deadline_and_a_result_is_welcome_then(
    work: Work, tmp_path: Path
) -> None:
    work.processors = {"child:obey": _with_limit(6.0)}
    async with work.worker(queues=("child:obey",), scratch_root=tmp_path / "scratch"):
        ended = await obeyed(work, "notice")
    assert (ended["state"], ended["result"]) == ("succeeded", {"reason": "deadline_near"})


def _with_limit(seconds: float) -> Processor[Any]:
    return Processor(OBEY.name, OBEY.input_model, OBEY.run, time_limit_seconds=seconds, backoff_seconds=0.05)


async def test_a_worker_that_stops_gives_it_back(work: Work, tmp_path: Path) -> None:
    work.processors = {"child:obey": OBEY}
    async with work.worker(queues=("child:obey",), scratch_root=tmp_path / "scratch", grace_seconds=3.0):
        task_id = await work.submit({"what": "wait"}, type="child:obey")
        await work.running(task_id)
    assert (await item(work, task_id))["state"] == "queued"
    assert [one["outcome"] for one in await work.attempts(task_id)] == ["released"]
    assert not (tmp_path / "scratch").exists() or leftovers(tmp_path / "scratch") == []


async def test_too_much_on_disk_ends_an_item_on_the_loop_too(
    work: Work, worker: WorkerProcess, tmp_path: Path
) -> None:
    task_id = await work.submit({}, type="demo:filler")
    await work.ended(task_id, 60)
    assert (await item(work, task_id))["error_code"] == "scratch_full"
    assert leftovers(tmp_path / "scratch") == []


async def test_a_child_dies_with_its_worker(work: Work, worker: WorkerProcess) -> None:
    pid = (await obeyed(work, "answer"))["result"]["pid"]
    isolated = next(c.executor for c in worker.consumers if c.executor and c.ledger.queue == "child:obey")
    child = isolated._runner._isolated._idle[0]  # type: ignore[union-attr]
    child._socket.close()  # as the kernel does for a worker that was killed
    await wait_until(lambda: not _alive(child, pid), message="the child ends")


def _alive(child: Any, pid: int) -> bool:
    return child.process.poll() is None and child.process.pid == pid
