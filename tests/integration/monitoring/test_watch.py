"""What is watched beside the queues: rows that contradict each other, and disks that fill up."""

from __future__ import annotations

from pathlib import Path

from lingxi.api.disk_metrics import disk_gauges
from lingxi.maintenance.invariant_watch import InvariantWatch
from lingxi.observability.tallies import Tallies
from tests.support.work import Work, drills


async def test_rows_that_contradict_each_other_are_counted_by_each_look(work: Work) -> None:
    task = await work.submit(*drills(3))
    tallies, watch = Tallies(), InvariantWatch(work.pool)
    tallies.follow("lingxi_invariant_violations_total", watch.found)
    assert await watch.done_once() == {"violations": 0}
    await work.pool.execute("update media_task_items set last_seq = 9 where task_id = $1", task)
    try:
        assert (await watch.done_once())["violations"] == 1
        assert (await watch.done_once())["violations"] == 1
    finally:
        await work.pool.execute("delete from media_task_items where task_id = $1", task)
        await work.pool.execute("delete from media_tasks where id = $1", task)
    assert tallies.take() == {"lingxi_invariant_violations_total|task_numbers_once": 2}


def test_the_free_part_of_each_disk_that_is_there(tmp_path: Path) -> None:
    (gauge,) = disk_gauges({"data": tmp_path, "storage": tmp_path / "not-there"})
    assert set(gauge.samples) == {("data",)}
    assert 0 < gauge.samples[("data",)] <= 1
