"""Walks every interleaving of what can happen to a small task, by the real statements on a real PostgreSQL.

A node is the rows of one task. From each node every step that workers, people, the sweep and lost messages can take is tried:
deliveries in any order and twice, endings by the owner and by attempts that were superseded, leases that run out, deaths of
workers, jobs that Redis lost, cancel, retry-failed. After each step the rows are compared with the pure model and looked over by
every invariant. Nodes that differ only in ids, numbers and times are one; so are nodes that differ only in which item is which.

A node's rows are put back once, and each of its steps is rolled back to there: so three items are a matter of minutes.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from lingxi.domain.decide import Decision
from lingxi.domain.errors import Conflict
from lingxi.domain.machine import Event, ModelTask
from lingxi.domain.states import NOT_STARTED, ItemState
from lingxi.services.cancel_task import cancel_task
from lingxi.services.claim_items import ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.renew_leases import renew_leases
from lingxi.services.requeue_lost import requeue_items
from lingxi.services.retry_failed import retry_failed
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.sweep_leases import LostAttempt, end_lost, find_lost
from lingxi.services.workspaces import create_workspace
from tests.explorer.rows import Look, TaskRows

HOUR = 3600.0
PUBLISHED = (
    "update outbox_events set published_at = clock_timestamp() where task_id = $1 and type = 'items.queued'"
)
EXPIRE = "update media_task_items set lease_expires_at = now() - interval '1 s' where task_id = $1 and position = $2"
ENDINGS = {
    Event.SUCCEED: Decision("succeeded", "{}"),
    Event.FAIL: Decision("failed", None, "drill_failed", "Told to.", False),
    Event.RETRY: Decision("retrying", None, "drill_failed", "Told to.", True, 0.0),
    Event.RELEASE: Decision("released"),
}
Step = tuple[str, tuple[Any, ...]]


class Broken(Exception):
    """A step led to rows that may not be. The message says what, and the way there."""


@dataclass
class Node:
    """The model that the rows agree with, and what the world outside still holds."""

    model: ModelTask
    way: tuple[Step, ...] = ()
    expired: frozenset[int] = frozenset()  # positions whose lease has run out
    stale: dict[int, int] = field(
        default_factory=dict
    )  # position → the fence of an attempt that was superseded
    suspects: frozenset[int] = frozenset()  # positions whose last attempt was lost
    rows: str = ""  # as JSON; taken when the node is new

    @property
    def living(self) -> dict[int, int]:
        """By position the last attempt's fence, unless it runs with a lease that has run out."""
        fences = {p: item.fence for p, item in self.model.items.items() if p not in self.expired}
        return {position: fence for position, fence in fences.items() if fence is not None}

    @property
    def key(self) -> tuple[Any, ...]:
        """What the next steps can depend on; items in any order."""
        model = self.model
        items = sorted(
            (
                item.state, item.attempt, model.round - item.round, item.fence is not None,
                position in self.expired, position in self.stale, position in self.suspects,
            )
            for position, item in model.items.items()
        )  # fmt: skip
        return (model.cancel_requested, model.round, tuple(items))


@dataclass(frozen=True, slots=True)
class Explored:
    """How much was walked."""

    nodes: int
    edges: int
    ends: int  # nodes in which the task has ended


class Explorer:
    """Explores a task of `size` items with `attempts` attempts a round, through at most `rounds` rounds."""

    def __init__(
        self, connection: asyncpg.Connection[Any], size: int, *, attempts: int = 2, rounds: int = 2
    ) -> None:
        self._connection = connection
        self._size = size
        self._attempts = attempts
        self._rounds = rounds

    async def explore(self, *, depth: int = 1_000) -> Explored:
        """Everything that can be reached in `depth` steps. Raises Broken at the first step that breaks something."""
        await self._begin()
        first = Node(ModelTask(self._size, self._attempts), rows=await self._rows.whole())
        self._judge(first, await self._rows.look())
        seen, waiting, edges, ends = {first.key}, deque([first]), 0, 0
        while waiting:
            node = waiting.popleft()
            ends += node.model.final
            async with self._at(node):
                for step in self._steps(node):
                    edges += 1
                    after = await self._take(node, step)
                    if after.key not in seen and len(after.way) < depth:
                        seen.add(after.key)
                        after.rows = await self._rows.whole()
                        waiting.append(after)
                    await self._connection.execute("rollback to here")
        return Explored(len(seen), edges, ends)

    @asynccontextmanager
    async def _at(self, node: Node) -> AsyncIterator[None]:
        """With the node's rows in place, and a savepoint `here` behind them."""
        transaction = self._connection.transaction()
        await transaction.start()
        try:
            await self._rows.restore(node.rows)
            await self._connection.execute("savepoint here")
            yield
        finally:
            await transaction.rollback()

    async def _begin(self) -> None:
        workspace = await create_workspace(self._connection, f"explorer {uuid4()}")
        assert workspace is not None
        self._workspace_id = workspace.id
        new = NewTask(
            workspace.id, "demo:drill", 1, [None] * self._size, ["{}"] * self._size, None, self._attempts
        )
        self._task_id: UUID = (await submit_task(self._connection, new, items_per_event=2)).id
        self._rows = TaskRows(self._connection, self._task_id)

    # ── what can happen ──────────────────────────────────────────────────────────────────────────────────
    def _steps(self, node: Node) -> Iterator[Step]:
        model = node.model
        positions = tuple(model.items)
        running = tuple(p for p in positions if model.items[p].state is ItemState.RUNNING)
        for position in positions:
            yield "claim", (position,)
            if position in node.suspects:
                yield "claim_no_suspects", (position,)
            if (
                model.items[position].fence is not None
            ):  # the owner's word, or (when it has ended) its repetition
                for event in ENDINGS:
                    if (
                        event is not Event.RETRY or model.items[position].attempt < self._attempts
                    ):  # as `decide` decides
                        yield "finish", ((position, False, event),)
            if position in node.stale:
                yield "finish", ((position, True, Event.SUCCEED),)
                yield "finish", ((position, True, Event.RELEASE),)
            if position in running and position not in node.expired:
                yield "expire", (position,)
        if self._size > 1:
            yield "claim", positions
            if len(running) > 1:
                yield "finish", tuple((p, False, Event.SUCCEED) for p in running)
                mixed = [Event.RELEASE, Event.FAIL, Event.SUCCEED]
                yield "finish", tuple((p, False, event) for p, event in zip(running, mixed, strict=False))
        yield "sweep", ()
        if node.stale or node.living:
            yield "sweep_late", ()
        if running:
            yield "worker_died", ()
        yield "renew", ()
        if node.stale:
            yield "renew_stale", ()
        yield "jobs_lost", ()
        yield "cancel", ()
        if model.round < self._rounds or not model.final or not model.counts.failed:
            yield "retry_failed", ()

    async def _take(self, node: Node, step: Step) -> Node:
        """The node after a step from `node`, judged; the rows are left as the step left them."""
        way = (*node.way, step)
        after = Node(copy.deepcopy(node.model), way, node.expired, dict(node.stale), node.suspects)
        name, given = step
        try:
            await getattr(self, f"_{name}")(after, *given)
        except asyncpg.PostgresError as error:  # a constraint refused it: it should not have come to that
            raise Broken(f"{_told(after.way)}: {type(error).__name__}: {error}") from error
        except AssertionError as error:
            raise Broken(f"{_told(after.way)}: not what the model says: {error}") from error
        self._judge(after, await self._rows.look())
        return after

    async def _claim(self, node: Node, *positions: int) -> None:
        await self._claimed(node, positions, None)

    async def _claim_no_suspects(self, node: Node, position: int) -> None:
        await self._claimed(node, (position,), 0)

    async def _claimed(self, node: Node, positions: tuple[int, ...], suspects: int | None) -> None:
        keys = [ItemKey(self._task_id, position) for position in positions]
        claims = await claim_items(
            self._connection, "demo:drill", keys * 2, worker="w", lease_seconds=HOUR, time_limit_seconds=HOUR,
            suspects=suspects,
        )  # fmt: skip
        fences = {claim.key.position: claim.fence for claim in claims}
        before = {position: node.model.items[position].fence for position in fences}
        wanted = [p for p in positions if suspects is None or p not in node.suspects]
        assert node.model.claim({position: fences.get(position, -1) for position in wanted}) == sorted(fences)
        for position, old in before.items():
            if old is not None:
                node.stale[position] = old
        node.suspects -= set(fences)

    async def _finish(self, node: Node, *endings: tuple[int, bool, Event]) -> None:
        told = {
            position: (node.stale[position] if late else node.model.items[position].fence, event)
            for position, late, event in endings
        }
        answers = await finish_items(
            self._connection,
            [
                Ending(ItemKey(self._task_id, p), fence, ENDINGS[event])
                for p, (fence, event) in told.items()
                if fence
            ],
        )
        verdicts = {key.position: finished.verdict for (key, _), finished in answers.items()}
        model: dict[int, Any] = node.model.finish(told)  # type: ignore[arg-type]
        assert verdicts == model, (verdicts, model)
        node.expired -= {position for position, verdict in model.items() if verdict == "accepted"}

    async def _expire(self, node: Node, position: int) -> None:
        await self._connection.execute(EXPIRE, self._task_id, position)
        node.expired |= {position}

    async def _sweep(self, node: Node) -> None:
        await self._lost(node, node.expired, None)

    async def _sweep_late(self, node: Node) -> None:
        """It had found them lost: since then they were claimed again, renewed, or ended. It changes nothing."""
        for fences in (node.stale, node.living):
            late = [LostAttempt(self._task_id, position, fence) for position, fence in fences.items()]
            assert not late or not (await end_lost(self._connection, late, only_expired=True)).lost, late

    async def _worker_died(self, node: Node) -> None:
        running = {p for p, item in node.model.items.items() if item.state is ItemState.RUNNING}
        await self._lost(node, frozenset(running), "w")

    async def _lost(self, node: Node, positions: frozenset[int], worker: str | None) -> None:
        found = await find_lost(self._connection, worker=worker)
        assert [one.position for one in found] == sorted(positions), (found, positions)
        if found:  # nobody else is here: all that it finds is lost
            swept = await end_lost(self._connection, found, only_expired=worker is None)
            assert swept.lost == len(found), (swept, found)
        node.model.finish({p: (node.model.items[p].fence or 0, Event.LOSE) for p in positions})
        node.expired -= positions
        lost = {p for p in positions if node.model.items[p].state in NOT_STARTED}
        node.suspects |= lost

    async def _jobs_lost(self, node: Node) -> None:
        """All was sent, and Redis lost it: what waits is sent again, and nothing else; a second sweep finds nothing to do."""
        await self._connection.execute(PUBLISHED, self._task_id)
        waiting = sum(item.state in NOT_STARTED for item in node.model.items.values())
        sent = [
            await requeue_items(self._connection, self._task_id, list(node.model.items)) for _ in range(2)
        ]
        assert sent == [waiting, 0], (sent, waiting)

    async def _renew(self, node: Node) -> None:
        fences = {p: item.fence for p, item in node.model.items.items() if item.fence is not None}
        running = {(p, f) for p, f in fences.items() if node.model.items[p].state is ItemState.RUNNING}
        assert await self._renewed(fences) == running, running
        node.expired = frozenset()  # a lease that ran out and that nobody took is renewed: its owner lives

    async def _renew_stale(self, node: Node) -> None:
        assert await self._renewed(node.stale) == set()

    async def _renewed(self, fences: dict[int, int]) -> set[tuple[int, int]]:
        held = [(ItemKey(self._task_id, position), fence) for position, fence in fences.items()]
        owned = await renew_leases(self._connection, held, lease_seconds=HOUR)
        return {(key.position, fence) for key, fence in owned}

    async def _cancel(self, node: Node) -> None:
        expected = node.model.cancel()
        assert await self._asked(cancel_task) == (expected != "ended"), expected
        node.suspects = frozenset(p for p in node.suspects if node.model.items[p].state in NOT_STARTED)

    async def _retry_failed(self, node: Node) -> None:
        expected = node.model.retry_failed()
        assert await self._asked(retry_failed) == (expected == "queued"), expected

    async def _asked(self, verb: Any) -> bool:
        try:
            await verb(self._connection, self._workspace_id, self._task_id)
        except Conflict:
            return False
        return True

    # ── is it right? ─────────────────────────────────────────────────────────────────────────────────────
    def _judge(self, node: Node, look: Look) -> None:
        if look.violations:
            raise Broken(f"{_told(node.way)}: {'; '.join(look.violations)}")
        model = node.model
        task = {"status": model.status, "round": model.round, "last_seq": model.last_seq, "ends": model.ends}
        items = {
            p: (item.state, item.attempt, item.last_seq, item.fence, p in node.expired)
            for p, item in model.items.items()
        }
        if (look.task, look.items) != (task, items):
            raise Broken(
                f"{_told(node.way)}: the rows say {look.task} {look.items}, the model {task} {items}"
            )


def _told(way: tuple[Step, ...]) -> str:
    return " → ".join(f"{name}{given if given else ''}" for name, given in way)
