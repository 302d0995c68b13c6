"""The bench: submits an item, runs its attempts to the end, and crashes, stops or repeats them when told."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from lingxi.db.session import Record, connect
from lingxi.domain.decide import Decision, Failed, Happening, decide
from lingxi.processors.context import Attempt, Item, StopReason
from lingxi.processors.contract import Processor
from lingxi.processors.registry import Registry
from lingxi.processors.runner import Runner
from lingxi.processors.scratch import Scratch, remove, remove_dead
from lingxi.services.claim_items import Claim, ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.get_object import find_object
from lingxi.services.put_object import put_object, receive_object
from lingxi.services.read_tasks import list_items
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.sweep_leases import sweep_leases
from lingxi.services.workspaces import create_workspace
from lingxi.settings import processor_environment
from lingxi.storage import open_storage
from lingxi.testing.clock import Clock
from lingxi.testing.context import BenchContext, BenchTools, Crash, OnProgress, Points
from lingxi.testing.database import FreshDatabase, server_url
from lingxi.testing.ran import Ran, Said
from lingxi.worker.config import new_boot
from lingxi.worker.outage import Outage
from lingxi.worker.store import Store

POINTS = ("claimed", "after_fetch", "before_commit", "after_commit", "returned", "finished")
"""claimed: before `run` · after_fetch: an object was fetched · before_commit, after_commit: of a transaction of the processor ·
returned: `run` is over and its result not stored · finished: stored, and the job not acknowledged."""

T = TypeVar("T")
_LEASE_SECONDS = 3600.0
_MAX_OBJECT_BYTES = 1 << 34


@contextmanager
def open_bench(folder: Path, *, database_url: str | None = None) -> Iterator["Bench"]:
    """A bench with storage and scratch in `folder`, on a fresh database of the server at `database_url` (see `server_url`)."""
    database = FreshDatabase(database_url or server_url())
    with asyncio.Runner() as runner:
        runner.run(database.create())
        try:
            bench = runner.run(Bench.make(database.url, folder, runner))
            try:
                yield bench
            finally:
                runner.run(bench.close())
        finally:
            runner.run(database.drop())


class Bench:
    """Made by `open_bench`. Its methods block until what they do is done."""

    def __init__(self, url: str, folder: Path, runner: asyncio.Runner, store: Store, workspace: UUID) -> None:
        self.database_url = url
        self.workspace_id = workspace
        self.clock = Clock()
        self.scratch_root = folder / "scratch"
        self._runner = runner
        self._store = store
        self._storage = open_storage((folder / "objects").as_uri())
        self._points = Points()
        self._context: BenchContext | None = None

    @classmethod
    async def make(cls, url: str, folder: Path, runner: asyncio.Runner) -> "Bench":
        store = await Store.open(url, "bench", Outage("postgres"))
        async with store.reading() as connection:
            workspace = await create_workspace(connection, "bench")
        assert workspace is not None
        return cls(url, folder, runner, store, workspace.id)

    async def close(self) -> None:
        await self._store.close()
        await self._storage.close()

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────
    def run(
        self, processor: Processor[Any], given: Mapping[str, Any], *, on_progress: OnProgress | None = None
    ) -> Ran:
        """Run an item with this input (as on the wire) to its end, attempt after attempt without the waits between them.

        `on_progress` is called with each word of progress; there a test moves `clock`, calls `stop()` or `crash_now()`.
        A broken input is refused as the API does: SchemaError.
        """
        return self._wait(self._run(processor, given, Points(), on_progress))

    def crash(
        self,
        processor: Processor[Any],
        given: Mapping[str, Any],
        *,
        at: str,
        on_progress: OnProgress | None = None,
    ) -> Ran:
        """Run an item whose first attempt dies at the point `at` (one of POINTS); the next attempts go on as after a kill.

        AssertionError when the point is never reached.
        """
        if at not in POINTS:
            raise ValueError(f"{at!r} is no point; known are: {', '.join(POINTS)}")
        points = Points(at)
        ran = self._wait(self._run(processor, given, points, on_progress))
        assert points.crashed, f"the attempt never came to the point {at!r}"
        return ran

    def run_twice(self, processor: Processor[Any], given: Mapping[str, Any]) -> Ran:
        """Run an item whose worker dies when `run` is over: all of its work is done twice, and only the second is finished.

        If its effects and its result are right after that, it is idempotent. (One that commits its result with its effect has
        ended by then: its work is not done again.)
        """
        return self.crash(processor, given, at="returned")

    def stop(self, reason: StopReason = StopReason.SHUTDOWN) -> None:
        """From `on_progress`: ask the attempt to stop, as a worker that ends does."""
        assert self._context is not None, "nothing runs"
        self._context.ask_to_stop(reason)

    def crash_now(self) -> None:
        """From `on_progress`: the attempt dies here. Only its first call in a run does."""
        if not self._points.crashed:
            self._points.crash()

    # ── around it ────────────────────────────────────────────────────────────────────────────────────────
    def put(self, name: str, data: bytes) -> None:
        """An object of the bench's workspace."""
        self._wait(self._put(name, data))

    def get(self, name: str) -> bytes | None:
        """The bytes of an object; None when there is none of that name."""
        return self._wait(self._get(name))

    def fetch(self, statement: str, *arguments: Any) -> list[Record]:
        """Rows of the bench's database."""
        return self._wait(self._fetch(statement, arguments))

    def scratch_left(self) -> list[Path]:
        """Scratch files and folders that attempts left behind; none once a crashed one's folder was swept."""
        return [
            path for owner in self.scratch_root.glob("*") for path in owner.glob("*") if path.name[0] != "."
        ]

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────
    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _run(
        self,
        processor: Processor[Any],
        given: Mapping[str, Any],
        points: Points,
        on_progress: OnProgress | None,
    ) -> Ran:
        registry = Registry([processor], [processor.name])
        if errors := registry.validate_inputs(processor.name, [dict(given)]):
            raise ValueError(f"{errors[0].field}: {errors[0].message}")
        self._points = points
        new = NewTask(
            self.workspace_id, processor.name, 1, [None], [json.dumps(given)], None, processor.max_attempts
        )
        async with self._store.connection() as connection:
            task = await submit_task(connection, new)
        key = ItemKey(task.id, 1)
        runner = Runner(processor, processor_environment())
        said: list[Said] = []
        try:
            while (claim := await self._claim(processor, key, worker := new_boot())) is not None:
                await self._attempt(processor, runner, claim, worker, said, on_progress)
        finally:
            await runner.close()
        async with self._store.reading() as connection:
            (item,) = await list_items(connection, task.id, states=None, after_position=0, limit=1)
        return Ran(item, tuple(said))

    async def _claim(self, processor: Processor[Any], key: ItemKey, worker: str) -> Claim | None:
        async with self._store.connection() as connection:
            claims = await claim_items(
                connection,
                processor.name,
                [key],
                worker=worker,
                lease_seconds=_LEASE_SECONDS,
                time_limit_seconds=_LEASE_SECONDS,
            )
        return claims[0] if claims else None

    async def _attempt(
        self,
        processor: Processor[Any],
        runner: Runner,
        claim: Claim,
        worker: str,
        said: list[Said],
        on_progress: OnProgress | None,
    ) -> None:
        points, scratch = self._points, Scratch(self.scratch_root, worker)
        item = Item(claim.key.task_id, claim.key.position - 1, claim.ref, claim.workspace_id)
        attempt = Attempt(claim.fence, claim.attempt, claim.round)
        context = self._context = BenchContext(
            item,
            attempt,
            processor.time_limit_seconds,
            BenchTools(self._store, self._storage, points, scratch),
            processor.result_model,
            self.clock,
            on_progress,
        )
        crashed_before = points.crashed
        try:
            points.reach("claimed")
            happening = await self._observe(runner, context, claim.input)
            if points.crashed and not crashed_before:
                raise Crash
            points.reach("returned")
            if context.scratch_folder is not None:
                remove(context.scratch_folder)
            await self._finish(claim, happening, processor)
            points.reach("finished")
        except Crash:
            await self._recover(worker, scratch)
        finally:
            said += context.said
            scratch.close()

    async def _observe(self, runner: Runner, context: BenchContext, given: str) -> Happening:
        """What `run` did, or that its time was over first: the bench's clock is looked at as the worker does."""
        running = asyncio.ensure_future(runner.observe(context, given))
        while not running.done():
            await asyncio.wait([running], timeout=0.02)
            if context.seconds_left() <= 0 and not running.done():
                context.ask_to_stop(StopReason.DEADLINE)
                running.cancel()
        return running.result() if not running.cancelled() else Failed.with_code("deadline_exceeded")

    async def _finish(self, claim: Claim, happening: Happening, processor: Processor[Any]) -> None:
        decision: Decision = decide(
            happening,
            attempt=claim.attempt,
            max_attempts=claim.max_attempts,
            backoff_base_seconds=processor.backoff_seconds,
        )
        ending = Ending(claim.key, claim.fence, replace(decision, delay_seconds=0.0))
        async with self._store.connection() as connection:
            await finish_items(connection, [ending])

    async def _recover(self, worker: str, scratch: Scratch) -> None:
        """What the world does once a worker is dead: its leases end, and the next one sweeps its scratch folders."""
        scratch.abandon()
        async with self._store.connection() as connection:
            await sweep_leases(connection, worker=worker)
        remove_dead(self.scratch_root)

    async def _put(self, name: str, data: bytes) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            yield data

        async with (
            receive_object(self._storage, chunks(), max_bytes=_MAX_OBJECT_BYTES) as received,
            self._store.reading() as connection,
        ):
            await put_object(connection, self.workspace_id, name, received)

    async def _get(self, name: str) -> bytes | None:
        async with self._store.reading() as connection:
            found = await find_object(connection, self.workspace_id, name)
        if found is None:
            return None
        reader = await self._storage.open(found.storage_key)
        try:
            return b"".join([chunk async for chunk in reader])
        finally:
            await reader.close()

    async def _fetch(self, statement: str, arguments: tuple[Any, ...]) -> list[Record]:
        connection = await connect(self.database_url, name="lingxi bench")
        try:
            return list(await connection.fetch(statement, *arguments))
        finally:
            await connection.close()
