"""The dispatcher: takes due events from the outbox and makes queue jobs of them. One loop, a round at a time.

A round is one transaction: the events are locked (`FOR UPDATE SKIP LOCKED`), their jobs are added, they are marked
as published, commit. A crash anywhere in between repeats the round with the same job ids, which BullMQ ignores or a worker
claims in vain. The lock in Redis only keeps many dispatchers from doing the same looking.

What says that Redis or PostgreSQL cannot serve now pauses the loop and charges nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lingxi import names
from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.errors import BrokerError, BrokerUnavailable
from lingxi.broker.hints import HintListener, Hints
from lingxi.broker.lock import DispatchLock
from lingxi.db.query import sql
from lingxi.db.session import Connection, Record, connect, is_conflict, is_unavailable
from lingxi.observability import failpoints
from lingxi.observability.logging import get_logger
from lingxi.outbox.canary import CanarySender
from lingxi.outbox.charging import Charger
from lingxi.outbox.counts import Round, Totals
from lingxi.outbox.events import Prepared, flaw_of, prepare_alone, queue_of
from lingxi.outbox.fairness import Fairness
from lingxi.outbox.jobs import jobs_of_event
from lingxi.outbox.plans import follow_canaries
from lingxi.outbox.sender import Delivered, JobSender, Parcel
from lingxi.outbox.telling import Teller
from lingxi.outbox.traced import begin_spans, end_spans
from lingxi.services.fan_out_webhooks import fan_out_webhooks
from lingxi.services.queue_holds import held_queues
from lingxi.services.workspace_caps import satisfied_workspaces

log = get_logger("outbox.dispatcher")

HANDLED_TYPES = names.EVENT_TYPES
_RESERVE_SECONDS = 1.0  # of a round's time, for a PING and the commit: sending stops so long before its end
RESERVED_PART = (
    10  # one in so many of a queue's waiting jobs may only be of a workspace that has no other there
)
_DRAINING_PAUSE_SECONDS = 0.05  # between two looks at a full queue that workers are emptying

Flow = tuple[str, UUID | None]  # the events of one workspace for one queue
Held = tuple[str | None, UUID | None]  # None as queue: all of them


@dataclass(frozen=True, slots=True)
class DispatcherConfig:
    """`waiting_limit`: jobs that may wait in Redis per queue. `queues`: all that jobs may be sent to."""

    database_url: str
    redis_url: str
    queues: tuple[str, ...] = names.QUEUES
    interval_seconds: float = 1.0
    waiting_limit: int = 10_000
    lock_ttl_ms: int = names.DISPATCH_LOCK_TTL_MS
    retry_base_seconds: float = 1.0
    retry_cap_seconds: float = 300.0
    canary_interval_seconds: float = 0.0  # none
    name: str = "dispatcher"


class Dispatcher:
    """`run()` until `stop()`; `run_once()` is one round."""

    def __init__(self, config: DispatcherConfig) -> None:
        self.config = config
        self.totals = Totals()
        self._client = api_client(config.redis_url, max_connections=5)
        self._lock = DispatchLock(self._client, config.lock_ttl_ms)
        self._hints = Hints(self._client)
        self._teller = Teller(self._client, self.totals)
        self._sender = JobSender(
            config.queues,
            config.redis_url,
            connection_factory(config.redis_url, timeout_seconds=names.DISPATCH_TIMEOUT_SECONDS),
            name=config.name,
        )
        self._canary = CanarySender(self._client, self._sender, config.queues, config.canary_interval_seconds)
        self._connection: Connection | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._one_by_one = 0  # so many rounds of a single event are to come: a whole one was too slow
        self._needed_room: dict[Flow, int] = {}  # jobs of the event that found no room
        self._fairness = Fairness()
        self._charger = Charger(config.retry_base_seconds, config.retry_cap_seconds)
        self._sending: set[Flow] = set()  # of this round
        self._waiting: dict[str, int] = {}
        self._draining = False
        self._claimed: list[Record] = []  # by this round

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────
    async def run(self) -> None:
        """Round after round until `stop`; nothing that a round raises ends the loop."""
        listener = HintListener(
            self.config.redis_url, [names.HINT_OUTBOX], lambda channel, payload: self.wake(), self.wake
        )
        listener.start()
        try:
            while not self._stopping:
                self._wake.clear()
                done = await self.run_once()
                await self._teller.tell()
                if not done.full:
                    await self._rest()
        finally:
            await listener.stop()
            await self.close()

    def wake(self) -> None:
        """Begin the next round now."""
        self._wake.set()

    def stop(self) -> None:
        """End the loop after the round that runs."""
        self._stopping = True
        self._wake.set()

    async def _rest(self) -> None:
        seconds = self.config.interval_seconds
        if self._draining:
            seconds = min(seconds, _DRAINING_PAUSE_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def close(self) -> None:
        """Let go of the lock and of all connections."""
        with contextlib.suppress(BrokerError):
            await self._lock.release()
        await self._sender.close()
        await self._hints.close()
        await self._client.aclose()
        self._drop_connection()

    # ── one round ────────────────────────────────────────────────────────────────────────────────────────
    async def run_once(self) -> Round:
        """One round; never raises but for cancellation. Its time is bounded."""
        loop = asyncio.get_running_loop()
        done = Round()
        # PostgreSQL that hangs must not hold the round: cutting the connection fails whatever waits for it.
        guard = loop.call_later(names.DISPATCH_TIMEOUT_SECONDS, self._drop_connection)
        try:
            await self._round(done, loop.time() + names.DISPATCH_TIMEOUT_SECONDS - _RESERVE_SECONDS)
        except BrokerUnavailable as error:
            self._fairness.undo()
            done = Round(leader=done.leader, paused=f"Redis: {error}")
        except Exception as error:
            self._fairness.undo()
            self._drop_connection()
            if is_unavailable(error) or is_conflict(error):
                done = Round(leader=done.leader, paused=f"PostgreSQL: {error or type(error).__name__}")
            else:
                log.error("dispatch_round_failed", error=f"{type(error).__name__}: {error}")
                done = Round(leader=done.leader)
                await self._blame(f"{type(error).__name__}: {error}", done)
        finally:
            guard.cancel()
        self._account(done)
        return done

    async def _round(self, done: Round, deadline: float) -> None:
        done.leader = await self._lock.acquire()
        if not done.leader:
            return
        self._claimed = []
        roomy, held = await self._look_for_room()
        deliveries = 0
        connection = await self._connected()
        await self._canary.tick(connection)
        limit = 1 if self._one_by_one else names.EVENTS_PER_ROUND
        async with connection.transaction():
            held += [(None, workspace) for workspace in await satisfied_workspaces(connection)]
            by_hand = await held_queues(connection)
            rows = await connection.fetch(
                sql("outbox/claim_due"),
                limit,
                [queue for queue in roomy if queue not in by_hand],
                names.PAYLOAD_VERSION,
                list(HANDLED_TYPES),
                [queue for queue, _ in held],
                [workspace for _, workspace in held],
            )
            await failpoints.reach("outbox.after_claim")
            self._claimed, done.claimed = rows, len(rows)
            prepared = await self._prepare(connection, rows, done)
            if prepared.for_webhooks and names.WEBHOOK_QUEUE in self.config.queues:
                deliveries = await fan_out_webhooks(connection, prepared.for_webhooks)
            await failpoints.reach("outbox.before_send")
            delivered = await self._sender.send(prepared.parcels, deadline=deadline)
            await failpoints.reach("outbox.after_send")
            delivered.guilty.update(prepared.guilty)
            await self._write_down(connection, rows, prepared.published, delivered, done)
            await failpoints.reach("outbox.before_commit")
        await failpoints.reach("outbox.after_commit")
        end_spans(prepared.spans, delivered.sent)
        if await follow_canaries(connection, prepared.ended_tasks):
            self.wake()
        self._hints.publish_tasks(prepared.ended_tasks)
        self._hints.publish_albums(prepared.changed_albums)
        self._teller.sent({row["id"]: row["due_seconds"] for row in rows}, delivered.sent)
        self._settle(delivered, done, limit)
        if deliveries:  # the next round has something to send
            self.wake()

    async def _look_for_room(self) -> tuple[list[str], list[Held]]:
        """Queues of this deployment that take an event now; and workspaces whose next one has no room in one of them yet."""
        lines = await self._sender.lines()
        self._sending.clear()
        self._fairness.begin({queue: first for queue, (_, first) in lines.items()})
        before, self._waiting = self._waiting, {queue: waiting for queue, (waiting, _) in lines.items()}
        full = {queue for queue, waiting in self._waiting.items() if waiting >= self.config.waiting_limit}
        self._needed_room = {
            flow: jobs for flow, jobs in self._needed_room.items() if not self._has_room(*flow, jobs)
        }
        held: list[Held] = [*self._needed_room]
        waited_for = full | {queue for queue, _ in self._needed_room}
        self._draining = any(self._waiting.get(queue, 0) < before.get(queue, 0) for queue in waited_for)
        return [queue for queue in self._waiting if queue not in full], held

    def _has_room(self, queue: str, workspace: UUID | None, jobs: int) -> bool:
        """A tenth of the room is for workspaces that have nothing waiting there. An event that is alone always has room."""
        waiting, limit = self._waiting.get(queue, 0), self.config.waiting_limit
        if (queue, workspace) in self._sending or self._fairness.waits(queue, workspace):
            limit -= limit // RESERVED_PART
        return not waiting or waiting + jobs <= limit

    async def _prepare(self, connection: Connection, rows: Sequence[Record], done: Round) -> Prepared:
        """The parcels of the events that have room, and what becomes of those that need none."""
        prepared = Prepared(spans=await begin_spans(connection, rows))
        sendable: list[Record] = []
        held: set[Flow] = set()
        for row in rows:
            if flaw := flaw_of(row):
                prepared.guilty[row["id"]] = flaw
                continue
            queue, jobs = queue_of(row), max(1, row["item_count"])
            flow = (queue or "", row["workspace_id"])
            if queue is not None and (flow in held or not self._make_room(queue, row["workspace_id"], jobs)):
                # In order: a small event behind a big one of its workspace must not pass it for ever.
                held.add(flow)
                done.held_back += 1
            elif row["type"] == names.EVENT_ITEMS_QUEUED:
                sendable.append(row)
            else:
                prepare_alone(row, prepared)
        await self._prepare_items(connection, sendable, prepared)
        return prepared

    async def _prepare_items(
        self, connection: Connection, sendable: Sequence[Record], prepared: Prepared
    ) -> None:
        items: dict[int, list[Record]] = {row["id"]: [] for row in sendable}
        if sendable:
            for item in await connection.fetch(sql("outbox/items_of_events"), list(items)):
                items[item["event_id"]].append(item)
        for row in sendable:
            if waiting := items[row["id"]]:
                positions = [item["position"] for item in waiting]
                numbers = self._fairness.place(
                    row["queue"], row["priority"], row["workspace_id"], len(positions)
                )
                trace = prepared.traceparent(row["id"])
                jobs = jobs_of_event(row["id"], row["task_id"], positions, numbers, trace)
                parcel = Parcel(row["id"], row["queue"], row["priority"], jobs, waiting[0]["now_ms"])
                prepared.parcels.append(parcel)
            else:  # cancelled, or claimed by way of an earlier job
                prepared.published.append(row["id"])

    def _make_room(self, queue: str, workspace: UUID | None, jobs: int) -> bool:
        if not self._has_room(queue, workspace, jobs):
            self._needed_room[queue, workspace] = jobs
            return False
        self._waiting[queue] = self._waiting.get(queue, 0) + jobs
        self._sending.add((queue, workspace))
        return True

    async def _write_down(
        self,
        connection: Connection,
        rows: Sequence[Record],
        published: list[int],
        delivered: Delivered,
        done: Round,
    ) -> None:
        published = published + delivered.sent
        if published:
            await connection.execute(sql("outbox/mark_published"), published)
        await self._charger.charge(connection, rows, delivered.guilty, done)
        done.published, done.jobs = len(published), delivered.jobs

    async def _blame(self, reason: str, done: Round) -> None:
        """An error that nobody foresaw. Events are tried one by one from now on; one that fails then is charged for it."""
        if not self._one_by_one or not self._claimed:
            self._one_by_one = names.EVENTS_PER_ROUND
            return
        # What keeps this from being written down is met by the next round.
        with contextlib.suppress(Exception):
            connection = await self._connected()
            async with connection.transaction():
                await self._charger.charge(connection, self._claimed, {self._claimed[0]["id"]: reason}, done)
            done.full = True

    def _settle(self, delivered: Delivered, done: Round, limit: int) -> None:
        if delivered.stopped:
            self._fairness.undo()
        if delivered.unavailable is not None:
            done.paused = f"Redis: {delivered.unavailable}"
        elif delivered.timed_out:
            self._one_by_one = names.EVENTS_PER_ROUND
        elif self._one_by_one:
            self._one_by_one -= 1
        done.full = done.paused is None and done.claimed >= limit

    def _account(self, done: Round) -> None:
        before = self.totals.add(done)
        if done.paused != before:  # told once, not once a round
            if done.paused is not None:
                log.warning("dispatch_paused", reason=done.paused)
            elif before is not None:
                log.info("dispatch_resumed")

    # ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────
    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(
                self.config.database_url,
                name=f"lingxi {self.config.name}",
                hot=True,
                timeout_seconds=names.DISPATCH_TIMEOUT_SECONDS,
            )
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
