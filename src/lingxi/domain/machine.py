"""The state machine of an item: one table, and a pure model of a task that applies it.

`db/migrations/0001_spine.sql` (`claim_items`: `0004_processors.sql`, `discard_event`: `0007_operations.sql`) does the same with
guarded statements that take arrays; a property test runs both side by side (`tests/integration/test_state_machine.py`), and
ARCHITECTURE.md draws the table.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from lingxi.domain.states import FINAL, NOT_STARTED, Counts, ItemState, TaskStatus, task_status


class Event(StrEnum):
    """What can happen to an item."""

    CLAIM = "claim"  # a worker takes it
    SUCCEED = "succeed"  # its attempt brings a result
    FAIL = "fail"  # its attempt ends in an error that no retry can mend, or was its last
    RETRY = "retry"  # its attempt ends in an error that may pass, and attempts remain
    RELEASE = "release"  # a stopping worker gives its attempt back, uncharged
    LOSE = "lose"  # the lease of its attempt ran out: charged
    CANCEL = "cancel"  # its task is cancelled
    DISCARD = "discard"  # the event that should have rung for it was a dead letter, and was discarded
    RETRY_FAILED = "retry_failed"  # a new round of its task's failed items


@dataclass(frozen=True, slots=True)
class Edge:
    """What an event does in a state: the state after it, and after it once a cancel was asked in this round."""

    to: ItemState
    when_cancelled: ItemState
    label: str
    charge: int = 0  # what it adds to `attempt`
    keeps_history: bool = False  # writes a row to media_task_attempts


_S = ItemState
TRANSITIONS: dict[tuple[ItemState, Event], Edge] = {
    (_S.QUEUED, Event.CLAIM): Edge(_S.RUNNING, _S.RUNNING, "claimed: lease, fence, attempt + 1", charge=1),
    (_S.RETRYING, Event.CLAIM): Edge(
        _S.RUNNING, _S.RUNNING, "claimed when due: lease, fence, attempt + 1", charge=1
    ),
    (_S.RUNNING, Event.SUCCEED): Edge(_S.SUCCEEDED, _S.SUCCEEDED, "result stored"),
    (_S.RUNNING, Event.FAIL): Edge(_S.FAILED, _S.FAILED, "error stored", keeps_history=True),
    (_S.RUNNING, Event.RETRY): Edge(_S.RETRYING, _S.FAILED, "waits for its next attempt", keeps_history=True),
    (_S.RUNNING, Event.RELEASE): Edge(
        _S.QUEUED, _S.CANCELLED, "given back, uncharged", charge=-1, keeps_history=True
    ),
    (_S.RUNNING, Event.LOSE): Edge(_S.RETRYING, _S.FAILED, "lease ran out, worker_lost", keeps_history=True),
    (_S.QUEUED, Event.CANCEL): Edge(_S.CANCELLED, _S.CANCELLED, "not started"),
    (_S.RETRYING, Event.CANCEL): Edge(_S.CANCELLED, _S.CANCELLED, "not started"),
    (_S.QUEUED, Event.DISCARD): Edge(_S.FAILED, _S.FAILED, "its event is given up: dispatch_failed"),
    (_S.RETRYING, Event.DISCARD): Edge(_S.FAILED, _S.FAILED, "its event is given up: dispatch_failed"),
    (_S.FAILED, Event.RETRY_FAILED): Edge(_S.QUEUED, _S.QUEUED, "new round, attempt 0"),
}
"""Every pair that is not here is refused: nothing changes, no number is taken."""


def apply(
    state: ItemState, event: Event, *, cancelled: bool, attempt: int, max_attempts: int
) -> ItemState | None:
    """The state after `event`, or None where the table has no edge. `LOSE` ends an item whose attempts are used up."""
    edge = TRANSITIONS.get((state, event))
    if edge is None:
        return None
    if cancelled:
        return edge.when_cancelled
    if event is Event.LOSE and attempt >= max_attempts:
        return ItemState.FAILED
    return edge.to


@dataclass(slots=True)
class ModelItem:
    """An item as the model sees it."""

    state: ItemState = ItemState.QUEUED
    attempt: int = 0
    round: int = 1
    fence: int | None = None  # of its current or last attempt
    last_seq: int = 1
    history: list[str] = field(default_factory=list)  # outcomes that media_task_attempts must hold, in order


@dataclass(slots=True)
class ModelTask:
    """A task in memory that obeys the table: the reference for what PostgreSQL must do."""

    size: int
    max_attempts: int = 3
    items: dict[int, ModelItem] = field(init=False)
    round: int = 1
    cancel_requested: bool = False
    last_seq: int = 1
    ends: int = 0  # `task.ended` events

    def __post_init__(self) -> None:
        self.items = {position: ModelItem() for position in range(1, self.size + 1)}

    @property
    def counts(self) -> Counts:
        return Counts.of([item.state for item in self.items.values()])

    @property
    def status(self) -> TaskStatus:
        return task_status(self.counts, self.cancel_requested)

    @property
    def final(self) -> bool:
        return self.counts.unfinished == 0

    def _number(self) -> int:
        self.last_seq += 1
        return self.last_seq

    def _end_if_final(self, was_final: bool) -> None:
        if self.final and not was_final:
            self._number()
            self.ends += 1

    def claim(self, fences: dict[int, int]) -> list[int]:
        """Claim items (position → the fence that each would get); answers the positions that were claimed."""
        claimed = [p for p in sorted(fences) if self.items[p].state in NOT_STARTED]
        for position in claimed:
            item = self.items[position]
            item.state, item.attempt, item.fence = ItemState.RUNNING, item.attempt + 1, fences[position]
            item.last_seq = self._number()
        return claimed

    def finish(self, results: dict[int, tuple[int, Event]]) -> dict[int, str]:
        """End attempts (position → fence, event); answers a verdict for each."""
        verdicts, was_final = {}, self.final
        for position, (fence, event) in sorted(results.items()):
            item = self.items[position]
            if item.fence != fence:
                verdicts[position] = "superseded"
            elif item.state is not ItemState.RUNNING:
                verdicts[position] = "already"
            else:
                verdicts[position] = "accepted"
                self._end_attempt(item, event)
        self._end_if_final(was_final)
        return verdicts

    def _end_attempt(self, item: ModelItem, event: Event) -> None:
        edge = TRANSITIONS[item.state, event]
        after = apply(
            item.state,
            event,
            cancelled=self.cancel_requested,
            attempt=item.attempt,
            max_attempts=self.max_attempts,
        )
        assert after is not None
        if edge.keeps_history:
            charged_end = event is Event.RETRY and after is ItemState.FAILED
            outcomes = {
                Event.FAIL: "failed",
                Event.RETRY: "retrying",
                Event.RELEASE: "released",
                Event.LOSE: "lost",
            }
            item.history.append("failed" if charged_end else outcomes[event])
        item.state, item.attempt, item.last_seq = after, item.attempt + edge.charge, self._number()

    def cancel(self) -> str:
        """Cancel what has not started; answers as `cancel_task` does."""
        if self.final:
            return "already" if self.status is TaskStatus.CANCELLED else "ended"
        if self.cancel_requested:
            return "already"
        self.cancel_requested = True
        self._number()
        for item in self.items.values():
            if item.state in NOT_STARTED:
                item.state, item.last_seq = ItemState.CANCELLED, self._number()
        self._end_if_final(False)
        return "cancelled"

    def discard(self, waited_for: set[int]) -> None:
        """The event that these positions waited for is given up."""
        was_final = self.final
        for position in sorted(waited_for):
            item = self.items[position]
            if item.state in NOT_STARTED and item.round == self.round:
                item.state, item.last_seq = ItemState.FAILED, self._number()
        self._end_if_final(was_final)

    def retry_failed(self) -> str:
        """Begin a round of the failed items; answers as `retry_failed` does."""
        if not self.final:
            return "not_ended"
        failed = [item for item in self.items.values() if item.state is ItemState.FAILED]
        if not failed:
            return "nothing_failed"
        self.round, self.cancel_requested = self.round + 1, False
        self._number()
        for item in failed:
            item.state, item.attempt, item.round, item.last_seq = (
                ItemState.QUEUED,
                0,
                self.round,
                self._number(),
            )
        return "queued"


assert all(state not in FINAL or event is Event.RETRY_FAILED for state, event in TRANSITIONS)
