"""In which order jobs are taken: priority, turns of workspaces, and how long bulk can be made to wait."""

from __future__ import annotations

import heapq
from itertools import count
from uuid import UUID

from lingxi.outbox.fairness import LEADS, MOST, QUANTUM, QueueTime

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
LIVE, NORMAL, BULK = 0, 1, 2


class Queue:
    """BullMQ's prioritized set: smallest number first, then who came first."""

    def __init__(self) -> None:
        self.time = QueueTime()
        self._heap: list[tuple[int, int, tuple[UUID, int]]] = []
        self._order = count()

    def send(self, workspace: UUID, priority: int, jobs: int) -> None:
        self.time.look(self._heap[0][0] if self._heap else None)
        for number in self.time.place(priority, workspace, jobs):
            assert 0 < number <= MOST
            heapq.heappush(self._heap, (number, next(self._order), (workspace, priority)))

    def take(self, jobs: int) -> list[tuple[UUID, int]]:
        return [heapq.heappop(self._heap)[2] for _ in range(min(jobs, len(self._heap)))]


def test_ten_items_do_not_wait_behind_ten_thousand() -> None:
    queue = Queue()
    queue.send(A, NORMAL, 10_000)
    queue.take(3_000)
    queue.send(B, NORMAL, 10)
    taken = queue.take(4 * QUANTUM)
    assert taken.count((B, NORMAL)) == 10
    assert taken.count((A, NORMAL)) == 4 * QUANTUM - 10


def test_more_of_the_same_workspace_goes_behind_what_it_has() -> None:
    queue = Queue()
    queue.send(A, NORMAL, 500)
    queue.send(A, NORMAL, 500)
    queue.send(B, NORMAL, 500)
    taken = queue.take(1_000)
    assert abs(taken.count((A, NORMAL)) - 500) <= QUANTUM


def test_a_workspace_that_was_away_has_saved_nothing_up() -> None:
    queue = Queue()
    queue.send(A, NORMAL, 5_000)
    queue.send(B, NORMAL, 10)
    queue.take(4_000)
    queue.send(B, NORMAL, 1_000)
    taken = queue.take(800)
    assert abs(taken.count((B, NORMAL)) - 400) <= 2 * QUANTUM


def test_live_before_normal_before_bulk_whatever_came_first() -> None:
    queue = Queue()
    for workspace in (A, B):
        for priority in (BULK, NORMAL, LIVE):
            queue.send(workspace, priority, 100)
    assert [priority for _, priority in queue.take(600)] == [LIVE] * 200 + [NORMAL] * 200 + [BULK] * 200
    queue.send(A, BULK, 1_000)
    queue.take(500)
    queue.send(B, LIVE, 20)
    assert queue.take(20) == [(B, LIVE)] * 20


def test_bulk_waits_for_a_bounded_number_of_others() -> None:
    queue = Queue()
    queue.send(C, BULK, 50)
    taken = 0
    while taken < 10 * LEADS[BULK] * QUANTUM:  # live work that never ends
        queue.send(A, LIVE, 100)
        if (C, BULK) in queue.take(100):
            break
        taken += 100
    assert LEADS[BULK] * QUANTUM - 200 <= taken <= LEADS[BULK] * QUANTUM + 200
    queue.send(A, LIVE, 4_000)
    share = queue.take(200).count((C, BULK))
    assert 20 <= share <= 60  # a quantum takes bulk four turns: a fifth of what two would share


def test_time_begins_anew_when_nothing_waits_and_ends_at_the_last_number() -> None:
    queue = Queue()
    queue.send(A, NORMAL, 100)
    queue.take(100)
    queue.send(A, NORMAL, 8)
    assert queue.time.place(NORMAL, B, 1) == [LEADS[NORMAL] * 4 + 2]
    late = QueueTime()
    late.look(MOST - 1)
    assert late.place(LIVE, A, 20_000)[-1] <= MOST
    assert late.place(BULK, A, 1)[0] <= MOST
