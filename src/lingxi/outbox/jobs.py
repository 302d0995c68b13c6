"""What an `items.queued` event becomes: one BullMQ job for each item that still waits."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from lingxi import names
from lingxi.broker.queue import Job


def jobs_of_event(
    event_id: int,
    task_id: UUID,
    positions: Sequence[int],
    numbers: Sequence[int | None],
    traceparent: str | None = None,
) -> list[Job]:
    """The jobs of these items, each with the number of its turn; their data are ids, and the trace that they belong to.

    A job's id is new for each event, so for each round and each dispatch: BullMQ ignores a job whose id it still keeps.
    An item's id is its task's with the position in the last 16 bits: written as text, since making a UUID of each costs
    half of the dispatcher's time.
    """
    prefix = str(task_id)[:-4]
    trace = "" if traceparent is None else f'"traceparent":"{traceparent}",'
    head = f'{{"v":{names.PAYLOAD_VERSION},{trace}"eventId":"{event_id}","taskId":"{task_id}","itemId":"'
    return [
        Job(
            f"{event_id}-{prefix}{position:04x}", f'{head}{prefix}{position:04x}"}}'.encode(), priority=number
        )
        for position, number in zip(positions, numbers, strict=True)
    ]
