"""The jobs of an event are written as text, and name the same items as the ids do."""

import json

from lingxi.domain.ids import item_id, new_task_id
from lingxi.outbox.jobs import jobs_of_event


def test_each_job_names_its_item() -> None:
    task = new_task_id()
    positions = [1, 15, 16, 255, 4096, 10_000]
    jobs = jobs_of_event(7, task, positions, range(6))
    assert [job.id for job in jobs] == [f"7-{item_id(task, position)}" for position in positions]
    assert [json.loads(job.data) for job in jobs] == [
        {"v": 1, "eventId": "7", "taskId": str(task), "itemId": str(item_id(task, position))}
        for position in positions
    ]
