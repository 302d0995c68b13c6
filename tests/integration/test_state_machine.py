"""The statements of PostgreSQL and the pure model of `domain/machine.py`, side by side: random histories, every row compared
after every step."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lingxi.domain.decide import Decision, Outcome
from lingxi.domain.errors import Conflict
from lingxi.domain.machine import Event, ModelTask
from lingxi.domain.states import FINAL, NOT_STARTED, ItemState
from lingxi.domain.wire import Task
from lingxi.services.cancel_task import cancel_task
from lingxi.services.claim_items import ItemKey, claim_items
from lingxi.services.dead_letters import Event as Event_
from lingxi.services.dead_letters import discard
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.read_tasks import get_task, list_items
from lingxi.services.renew_leases import renew_leases
from lingxi.services.retry_failed import retry_failed
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.sweep_leases import sweep_leases
from lingxi.services.workspaces import create_workspace

pytestmark = pytest.mark.portable

HOUR = 3_600.0
EXPIRE = """update media_task_items set lease_expires_at = now() - interval '1 s'
             where task_id = $1 and position = any($2) and state = 'running'"""
OUTCOMES: dict[Event, Outcome] = {
    Event.SUCCEED: "succeeded",
    Event.FAIL: "failed",
    Event.RETRY: "retrying",
    Event.RELEASE: "released",
}


def decision(event: Event) -> Decision:
    if event in (Event.FAIL, Event.RETRY):
        return Decision(OUTCOMES[event], None, "drill_failed", "Told to.", event is Event.RETRY, 0.0)
    return Decision(OUTCOMES[event], '{"ok": true}' if event is Event.SUCCEED else None)


class Lifetimes(RuleBasedStateMachine):
    """One task in the database, its model beside it."""

    connection: asyncpg.Connection[Any]
    runner: asyncio.Runner
    workspaces = 0

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    @initialize(size=st.integers(1, 4), max_attempts=st.integers(1, 3), chunk=st.integers(1, 3))
    def submit(self, size: int, max_attempts: int, chunk: int) -> None:
        Lifetimes.workspaces += 1
        self.run(
            self.connection.execute(
                "delete from media_tasks; delete from media_task_items; delete from outbox_events"
            )
        )
        self.chunk = chunk
        self.fences: dict[int, list[int]] = {position: [] for position in range(1, size + 1)}
        self.model = ModelTask(size, max_attempts)
        self.workspace = self.run(create_workspace(self.connection, f"w{self.workspaces}"))
        new = NewTask(self.workspace.id, "demo:drill", 1, [None] * size, ["{}"] * size, None, max_attempts)
        self.task_id = self.run(submit_task(self.connection, new, items_per_event=chunk)).id

    @rule(wanted=st.sets(st.integers(1, 4), min_size=1), twice=st.booleans())
    def claim(self, wanted: set[int], twice: bool) -> None:
        """Jobs ring for some items, perhaps twice, perhaps for items that do not exist or do not wait."""
        keys = [ItemKey(self.task_id, position) for position in sorted(wanted)] * (2 if twice else 1)
        claims = self.run(
            claim_items(
                self.connection,
                "demo:drill",
                keys,
                worker="w1:boot",
                lease_seconds=HOUR,
                time_limit_seconds=HOUR,
            )
        )
        fences = {claim.key.position: claim.fence for claim in claims}
        for position, fence in fences.items():
            self.fences[position].append(fence)
        asked = {position: fences.get(position, -1) for position in wanted if position in self.model.items}
        assert self.model.claim(asked) == sorted(fences)

    @rule(
        events=st.dictionaries(st.integers(1, 4), st.sampled_from(list(OUTCOMES)), min_size=1),
        late=st.booleans(),
    )
    def finish(self, events: dict[int, Event], late: bool) -> None:
        """Attempts end: the newest of each item, or (late) the first that it ever had, by then perhaps superseded."""
        results = {
            p: (self.fences[p][0 if late else -1], event) for p, event in events.items() if self.fences.get(p)
        }
        endings = [
            Ending(ItemKey(self.task_id, p), fence, decision(event)) for p, (fence, event) in results.items()
        ]
        finished = self.run(finish_items(self.connection, endings))
        verdicts = {key.position: answer.verdict for (key, _), answer in finished.items()}
        assert verdicts == self.model.finish(results)

    @precondition(lambda self: any(item.state is ItemState.RUNNING for item in self.model.items.values()))
    @rule(which=st.sets(st.integers(1, 4), min_size=1), by_worker=st.booleans())
    def crash_and_sweep(self, which: set[int], by_worker: bool) -> None:
        """The leases of some items run out, or their parent reports the death of the process that held them all."""
        running = {p for p, item in self.model.items.items() if item.state is ItemState.RUNNING}
        if not by_worker:
            running &= which
            self.run(
                self.connection.execute(
                    EXPIRE,
                    self.task_id,
                    sorted(running),
                )
            )
        swept = self.run(sweep_leases(self.connection, worker="w1:boot" if by_worker else None))
        lost = {position: (self.fences[position][-1], Event.LOSE) for position in running}
        assert swept.lost == len([v for v in self.model.finish(lost).values() if v == "accepted"])

    @rule()
    def renew(self) -> None:
        """Renewing says who still owns what, and changes nothing else."""
        held = [(ItemKey(self.task_id, p), fence) for p, fences in self.fences.items() for fence in fences]
        owned = self.run(renew_leases(self.connection, held, lease_seconds=HOUR))
        running = {p: i.fence for p, i in self.model.items.items() if i.state is ItemState.RUNNING}
        assert {key.position: fence for key, fence in owned} == running

    @rule()
    def cancel(self) -> None:
        expected = self.model.cancel()
        try:
            self.run(cancel_task(self.connection, self.workspace.id, self.task_id))
        except Conflict:
            assert expected == "ended"
        else:
            assert expected != "ended"

    @rule()
    def retry(self) -> None:
        expected = self.model.retry_failed()
        try:
            self.run(
                retry_failed(self.connection, self.workspace.id, self.task_id, items_per_event=self.chunk)
            )
        except Conflict:
            assert expected != "queued"
        else:
            assert expected == "queued"

    @rule(which=st.integers(0, 20))
    def give_up_an_event(self, which: int) -> None:
        """An event of items becomes a dead letter and is discarded: only what waits for it, and for no later one, ends."""
        rows = self.run(
            self.connection.fetch(
                "select * from outbox_events where task_id = $1 and type = 'items.queued' and published_at is null order by id",
                self.task_id,
            )
        )
        if not rows:
            return
        dead = rows[which % len(rows)]
        named = [set(r["positions"] or range(r["first_position"], r["last_position"] + 1)) for r in rows]
        later = [
            n
            for r, n in zip(rows, named, strict=True)
            if r["id"] > dead["id"] and r["round"] == dead["round"]
        ]
        waited_for = named[rows.index(dead)].difference(*later)
        self.run(
            self.connection.execute(
                "update outbox_events set last_error = 'dead_lettered' where id = $1", dead["id"]
            )
        )
        self.run(discard(self.connection, Event_(dead["id"], dead["type"], self.workspace.id, self.task_id)))
        if dead["round"] == self.model.round:
            self.model.discard(waited_for)

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "task_id"):
            return
        task: Task = self.run(get_task(self.connection, self.workspace.id, self.task_id))
        model = self.model
        assert (task.status, task.round, task.cancel_requested) == (
            model.status,
            model.round,
            model.cancel_requested,
        )
        assert (task.counts, task.cursor, task.final) == (model.counts, model.last_seq, model.final)
        items = self.run(list_items(self.connection, self.task_id, states=None, after_position=0, limit=10))
        for item in items:
            expected = model.items[item.position]
            assert (item.state, item.attempt, item.last_seq) == (
                expected.state,
                expected.attempt,
                expected.last_seq,
            )
            ended = [
                a.outcome for a in item.attempts if not (a.finished_at is None or a.outcome == "succeeded")
            ]
            assert ended == expected.history
            assert (item.finished_at is not None) == (item.state in FINAL)
            assert (item.error is not None) == (item.state in ("failed", "retrying"))
        self.check_events()

    def check_events(self) -> None:
        """One end a round; every item that waits is named by an event (none is published here, so none is lost)."""
        rows = self.run(self.connection.fetch("select * from outbox_events where task_id = $1", self.task_id))
        assert sum(row["type"] == "task.ended" for row in rows) == self.model.ends
        rung: set[int] = set()
        for row in rows:
            if row["type"] == "items.queued" and row["round"] == self.model.round:
                rung |= set(row["positions"] or range(row["first_position"], row["last_position"] + 1))
                assert row["item_count"] == len(
                    row["positions"] or range(row["first_position"], row["last_position"] + 1)
                )
        assert {p for p, item in self.model.items.items() if item.state in NOT_STARTED} <= rung


@pytest.mark.parametrize(
    "examples", [150, pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])]
)
def test_statements_do_what_the_model_does(database_url: str, examples: int) -> None:
    with asyncio.Runner() as runner:
        Lifetimes.runner = runner
        Lifetimes.connection = runner.run(asyncpg.connect(database_url))
        run_state_machine_as_test(
            Lifetimes,
            settings=settings(
                max_examples=examples,
                stateful_step_count=25,
                deadline=None,
                derandomize=examples < 1_000,
                suppress_health_check=list(HealthCheck),
            ),
        )
        runner.run(Lifetimes.connection.close())
