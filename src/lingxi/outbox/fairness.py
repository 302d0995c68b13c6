"""In which order the jobs of one queue are taken: by priority, in turn by workspace, and nobody waits for ever.

BullMQ takes the smallest number first, and equal ones in the order in which they came. So each job gets a number that is worth a
moment of the queue's own time, which goes on as jobs are taken (start-time fair queueing):

- a workspace's jobs are placed `QUANTUM` to a moment, beginning now or where its last one lies: so whoever comes with ten is
  served beside whoever has ten thousand waiting, and not behind them;
- `normal` is placed `LEADS[1]` moments later than `live`, `bulk` `LEADS[2]`: so live goes before normal before bulk, until work
  that waits has been overtaken for so long that its moment has come. Then bulk gets a fourth of another's turns.

Time stands still while nothing waits, and begins anew then. The numbers end at 2²¹: a queue that four million jobs of one
workspace go through without being empty for one moment serves in the order of arrival from there on, until it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

QUANTUM: Final = 8  # jobs of a workspace before it is the next one's turn
LEADS: Final = (0, 250, 2_500)  # moments, by priority (live, normal, bulk)
STRIDES: Final = (1, 1, 4)  # moments that a quantum takes up, by priority
_CLASSES: Final = 4  # a number is moment × 4 + priority + 1: 0 would go to another of BullMQ's lists
MOST: Final = (1 << 21) - 1
_LAST_MOMENT: Final = (MOST - _CLASSES) // _CLASSES

Flow = tuple[int, UUID | None]


@dataclass(slots=True)
class QueueTime:
    """One queue's time, and where each workspace's next job of each priority would lie."""

    now: int = 0
    next_at: dict[Flow, int] = field(default_factory=dict)

    def look(self, first_number: int | None) -> None:
        """The number of the first job in line, None when none is: what time it is."""
        if first_number is None:
            self.now = 0
            self.next_at.clear()
            return
        moment, kind = divmod(max(first_number - 1, 0), _CLASSES)
        self.now = max(self.now, moment - LEADS[min(kind, len(LEADS) - 1)])
        passed = [flow for flow, at in self.next_at.items() if at // QUANTUM <= self.now + LEADS[flow[0]]]
        for flow in passed:
            del self.next_at[flow]

    def waits(self, workspace: UUID | None) -> bool:
        """Does some job of this workspace lie ahead of its turn?"""
        return any((kind, workspace) in self.next_at for kind in range(len(LEADS)))

    def place(self, priority: int, workspace: UUID | None, jobs: int) -> list[int]:
        """The numbers of so many new jobs, in their order."""
        flow = (priority, workspace)
        at = max(self.next_at.get(flow, 0), (self.now + LEADS[priority]) * QUANTUM)
        stride = STRIDES[priority]
        self.next_at[flow] = at + jobs * stride
        return [
            min((at + step * stride) // QUANTUM, _LAST_MOMENT) * _CLASSES + priority + 1
            for step in range(jobs)
        ]


class Fairness:
    """The times of all queues. What was placed and not sent is taken back: `begin`, `undo`."""

    def __init__(self) -> None:
        self._times: dict[str, QueueTime] = {}
        self._before: dict[str, dict[Flow, int]] = {}

    def begin(self, first_numbers: Mapping[str, int | None]) -> None:
        """A round begins; by queue, the number of the first job in line."""
        for queue, first in first_numbers.items():
            self._time(queue).look(first)
        self._before = {}

    def waits(self, queue: str, workspace: UUID | None) -> bool:
        return self._time(queue).waits(workspace)

    def place(self, queue: str, priority: int, workspace: UUID | None, jobs: int) -> list[int]:
        time = self._time(queue)
        self._before.setdefault(queue, dict(time.next_at))
        return time.place(priority, workspace, jobs)

    def undo(self) -> None:
        """The round's jobs did not get to Redis."""
        for queue, before in self._before.items():
            self._times[queue].next_at = before
        self._before = {}

    def _time(self, queue: str) -> QueueTime:
        return self._times.setdefault(queue, QueueTime())
