"""A hub over a real database, the writers that change its tasks, and watchers whose reading a test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from lingxi.conformance.model import Model
from lingxi.conformance.sse import Frame, Parser
from lingxi.db.session import connect
from lingxi.domain.decide import Decision
from lingxi.domain.errors import PostgresUnavailable
from lingxi.domain.wire import Task, item_to_wire, task_to_wire
from lingxi.services.cancel_task import cancel_task
from lingxi.services.claim_items import ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.read_tasks import get_task, list_items
from lingxi.services.record_first_frames import record_first_frames
from lingxi.services.retry_failed import retry_failed
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.stream.hub import Hub, HubConfig
from lingxi.stream.page import Ask, Page
from lingxi.stream.reader import PostgresReader
from lingxi.stream.subject import Key
from lingxi.stream.watcher import Watcher

QUICK = HubConfig(poll_seconds=0.05, heartbeat_seconds=15, close_seconds=1)


class CountingReader:
    """A PostgresReader that counts its statements, and can be told to wait, or that the database is away.

    `gate` is before a read, `delivery` after it: what was read is held back while the rows go on.
    """

    def __init__(self, dsn: str) -> None:
        self.inner = PostgresReader(lambda: connect(dsn, name="stream-test", hot=True))
        self.reads: list[list[Ask]] = []
        self.away = False
        self.gate, self.delivery = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.delivery.set()
        self.held: dict[Key, Page] = {}

    async def read(self, asks: Sequence[Ask]) -> dict[Key, Page]:
        if self.away:
            raise PostgresUnavailable("away")
        self.reads.append(list(asks))
        await self.gate.wait()
        self.held = await self.inner.read(asks)
        await self.delivery.wait()
        return self.held

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class Viewer:
    """One connection to the hub: its frames, and a gate that holds its sends back like a full socket."""

    watcher: Watcher
    gate: asyncio.Event
    model: Model
    frames: list[Frame] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    parser: Parser = field(default_factory=Parser)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    limit: int | None = None  # frames after which the connection is lost
    last_id: str | None = None

    async def send(self, body: bytes) -> None:
        await self.gate.wait()
        self.take(body)

    def send_now(self, body: bytes) -> bool:
        if not self.gate.is_set():
            return False
        self.take(body)
        return True

    def take(self, body: bytes) -> None:
        self.raw.append(body)
        for frame in self.parser.feed(body, asyncio.get_running_loop().time()):
            if self.limit is not None and len(self.frames) >= self.limit:
                break
            self.frames.append(frame)
            self.model.apply(frame)
            if frame.id is not None:
                self.last_id = frame.id
        self.changed.set()
        if self.limit is not None and len(self.frames) >= self.limit:
            self.watcher.stop()

    @property
    def events(self) -> list[str]:
        return [frame.event for frame in self.frames]

    async def ended(self, timeout_seconds: float = 10) -> None:
        """Wait until the hub has ended the stream."""
        assert self.task is not None
        async with asyncio.timeout(timeout_seconds):
            await asyncio.wait([self.task])

    async def until(self, fact: Any, timeout_seconds: float = 10) -> None:
        """Wait until `fact(self)` holds."""
        async with asyncio.timeout(timeout_seconds):
            while not fact(self):
                self.changed.clear()
                await self.changed.wait()


class Stage:
    """What a test plays on."""

    def __init__(self, pool: Any, dsn: str, config: HubConfig) -> None:
        self.pool, self.config = pool, config
        self.workspace_id = uuid4()
        self.polls, self.pages = CountingReader(dsn), CountingReader(dsn)
        self.valid: set[Hashable] | None = None  # None: every grant holds
        self.access_checks: list[list[Hashable]] = []
        self.first_frames: list[Mapping[UUID, datetime]] = []
        self.hub = Hub(
            self.polls, self.pages, self._check_access, config, write_first_frames=self._write_first_frames
        )
        self.viewers: list[Viewer] = []
        self.album_viewers: list[Any] = []

    async def _check_access(self, grants: Sequence[Hashable]) -> set[Hashable]:
        self.access_checks.append(list(grants))
        return set(grants) if self.valid is None else set(grants) & self.valid

    async def _write_first_frames(self, times: Mapping[UUID, datetime]) -> set[UUID]:
        async with self.pool.acquire() as c:
            done = set(await record_first_frames(c, times))
        self.first_frames.append(times)
        return done

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, items: int) -> Task:
        async with self.pool.acquire() as c, c.transaction():
            inputs = ["{}"] * items
            refs = [f"r{n}" for n in range(items)]
            return await submit_task(c, NewTask(self.workspace_id, "demo:drill", 1, refs, inputs))

    async def start(self, task: Task, *positions: int) -> dict[int, int]:
        """Claim items; answers the fence of each."""
        async with self.pool.acquire() as c, c.transaction():
            keys = [ItemKey(task.id, position) for position in positions]
            claims = await claim_items(
                c, "demo:drill", keys, worker="w", lease_seconds=60, time_limit_seconds=600
            )
            return {claim.key.position: claim.fence for claim in claims}

    async def finish(
        self, task: Task, fences: dict[int, int], *failing: int, result: str = '{"ok":true}'
    ) -> None:
        """End claimed items: those in `failing` for good, the others well."""
        async with self.pool.acquire() as c, c.transaction():
            endings = [
                Ending(
                    ItemKey(task.id, position),
                    fence,
                    Decision(
                        "failed", error_code="drill_failed", error_message="told to", error_retryable=False
                    )
                    if position in failing
                    else Decision("succeeded", result=result),
                )
                for position, fence in fences.items()
            ]
            await finish_items(c, endings)

    async def run(
        self, task: Task, *positions: int, failing: Sequence[int] = (), result: str = '{"ok":true}'
    ) -> None:
        await self.finish(task, await self.start(task, *positions), *failing, result=result)

    async def cancel(self, task: Task) -> None:
        async with self.pool.acquire() as c, c.transaction():
            await cancel_task(c, self.workspace_id, task.id)

    async def retry(self, task: Task) -> None:
        async with self.pool.acquire() as c, c.transaction():
            await retry_failed(c, self.workspace_id, task.id)

    # ── truth ────────────────────────────────────────────────────────────────────────────────────────────

    async def truth(self, task: Task) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        async with self.pool.acquire() as c:
            now = await get_task(c, self.workspace_id, task.id)
            items = await list_items(c, task.id, after_position=0, limit=20_000, states=None)
        assert now is not None
        return task_to_wire(now), [item_to_wire(item) for item in items]

    async def differences(self, task: Task, viewer: Viewer) -> list[str]:
        return viewer.model.differences(*await self.truth(task))

    # ── watching ─────────────────────────────────────────────────────────────────────────────────────────

    async def watch(
        self,
        task: Task,
        last_event_id: str | None = None,
        *,
        model: Model | None = None,
        grant: Hashable = "grant",
        held: bool = False,
        limit: int | None = None,
    ) -> Viewer | None:
        """Open a stream and serve it; None for 204. `held`: its first send does not return until `gate` is set."""
        watcher = await self.hub.open(
            task.id, workspace_id=self.workspace_id, grant=grant, last_event_id=last_event_id
        )
        if watcher is None:
            return None
        viewer = Viewer(watcher, asyncio.Event(), model if model is not None else Model(), limit=limit)
        viewer.last_id = last_event_id
        if not held:
            viewer.gate.set()
        direct = (
            viewer.send_now if len(self.viewers) % 2 else None
        )  # both ways of sending are tried by all tests
        viewer.task = asyncio.create_task(self.hub.serve(watcher, viewer.send, direct))
        self.viewers.append(viewer)
        return viewer

    async def watching(self, task: Task, last_event_id: str | None = None, **how: Any) -> Viewer:
        """As `watch`, for a stream that must open."""
        viewer = await self.watch(task, last_event_id, **how)
        assert viewer is not None
        return viewer


@asynccontextmanager
async def open_stage(pool: Any, dsn: str, config: HubConfig = QUICK) -> AsyncIterator[Stage]:
    stage = Stage(pool, dsn, config)
    async with pool.acquire() as c:
        await c.execute("insert into workspaces (id, name) values ($1, 'w')", stage.workspace_id)
    stage.hub.start()
    try:
        yield stage
    finally:
        for gated in (*stage.viewers, *stage.album_viewers, stage.polls, stage.pages):
            gated.gate.set()
        for reader in (stage.polls, stage.pages):
            reader.delivery.set()
        await stage.hub.close()
