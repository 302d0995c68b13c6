"""Runs claimed items, one asyncio task each, and sees to it that each comes to an end: by itself, at its deadline, when
its lease was lost, or when the worker stops. A processor that ignores its cancellation is abandoned."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lingxi.broker.queue import Delivery
from lingxi.domain.decide import Failed, GivenBack, Happening, decide
from lingxi.observability import failpoints
from lingxi.observability.kept_lines import keep_lines
from lingxi.observability.logging import get_logger
from lingxi.observability.tracing import task_context
from lingxi.processors.contract import Attempt, Context, Item, Processor, StopReason, Tools
from lingxi.processors.runner import Runner
from lingxi.processors.scratch import remove, used_bytes
from lingxi.services.claim_items import Claim
from lingxi.worker.ledger import Ledger, Running
from lingxi.worker.traced import begin_attempt
from lingxi.worker.ward import Ward

_WATCH_SECONDS = 0.1
_SCRATCH_CHECKS = 5  # once in so many looks: measuring a folder is a walk through it
_LONGEST_NOTICE_SECONDS = 5.0
_log = get_logger("worker.executor")


class Executor:
    """`settled(running)` is called once for each attempt, with its decision made."""

    def __init__(
        self,
        processor: Processor[Any],
        ledger: Ledger,
        tools: Tools,
        settled: Callable[[Running], None],
        ward: Ward,
        *,
        cancel_seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._processor = processor
        self._runner = Runner(processor, environment)
        self._notice_seconds = min(_LONGEST_NOTICE_SECONDS, processor.time_limit_seconds / 10)
        self._ledger = ledger
        self._tools = tools
        self._settled = settled
        self._ward = ward
        self._cancel_seconds = cancel_seconds
        self._unsettled: set[Running] = set()
        self._all_settled = asyncio.Event()
        self._all_settled.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.abandoned = 0  # whose code still runs somewhere in this process

    def start(self, claims: Iterable[tuple[Claim, Delivery]], deadline: float) -> None:
        """Run these; `deadline` is of time.monotonic(). While the worker stops they are given back instead."""
        create_task = asyncio.get_running_loop().create_task
        for claim, delivery in claims:
            item = Item(claim.key.task_id, claim.key.position - 1, claim.ref, claim.workspace_id)
            attempt = Attempt(claim.fence, claim.attempt, claim.round)
            context = Context(item, attempt, deadline, self._tools, self._processor.result_model)
            running = Running(claim, delivery, context, deadline)
            running.span = begin_attempt(running)
            self._ledger.attempts[claim.fence] = running
            self._unsettled.add(running)
            self._all_settled.clear()
            if self._ledger.stopping:
                self._settle(running, GivenBack())
                continue
            running.task = task = create_task(self._run(running), context=task_context(running.span))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def watch(self) -> None:
        """Until cancelled: cancel what is past its deadline or was told to stop, abandon what ignores that."""
        for look in itertools.count():
            await asyncio.sleep(_WATCH_SECONDS)
            if look % _SCRATCH_CHECKS == 0:
                await self._watch_scratch()
            now = time.monotonic()
            for running in list(self._unsettled):
                if now >= running.deadline - self._notice_seconds and running.context.stop_reason is None:
                    running.context.ask_to_stop(StopReason.DEADLINE_NEAR)
                if now >= running.deadline and running.context.stop_reason is not StopReason.DEADLINE:
                    self._ask_to_stop(running, StopReason.DEADLINE, cancel_at=now)
                if running.cancel_at is not None and now >= running.cancel_at:
                    self._cancel(running, now)
                if running.abandon_at is not None and now >= running.abandon_at:
                    self._abandon(running)

    def lost_leases(self, fences: Iterable[int]) -> None:
        """Somebody else may have these items: tell their processors, and cancel them if they go on.

        Not those that committed their own end and are still busy with what comes after it: their lease ended with the item.
        """
        for fence in fences:
            running = self._ledger.attempts.get(fence)
            if running is None or running.decision is not None or running.context.committed is not None:
                continue
            if not _was_asked(running):
                _log.warning("lease_lost", queue=self._ledger.queue, item_id=str(running.context.item.id))
                cancel_at = time.monotonic() + self._cancel_seconds
                self._ask_to_stop(running, StopReason.LEASE_LOST, cancel_at=cancel_at)

    async def stop(self, grace_seconds: float) -> None:
        """Let what runs finish within the grace; cancel the rest; abandon what ignores that. All are settled then."""
        cancel_at = time.monotonic() + grace_seconds
        for running in list(self._unsettled):
            if not _was_asked(running):
                self._ask_to_stop(running, StopReason.SHUTDOWN, cancel_at=cancel_at)
        await self._all_settled.wait()
        await self._runner.close()

    async def _run(self, running: Running) -> None:
        running.started = True
        running.lines = keep_lines()
        await failpoints.reach("worker.before_run")
        happening = await self._runner.observe(running.context, running.claim.input)
        running.context.end()
        if (folder := running.context.scratch_folder) is not None:
            await _remove(folder)
        await failpoints.reach("worker.after_run")
        if running.decision is None:
            self._settle(running, happening)
        else:
            self.abandoned -= 1

    async def _watch_scratch(self) -> None:
        limit = self._processor.scratch_bytes
        for running in list(self._unsettled):
            folder = running.context.scratch_folder
            if folder is not None and running.decision is None and not _was_asked(running):
                used = await asyncio.to_thread(used_bytes, folder)
                if used > limit and running.decision is None:
                    _log.warning("scratch_full", item_id=str(running.context.item.id), used_bytes=used)
                    self._ask_to_stop(running, StopReason.SCRATCH_FULL, cancel_at=time.monotonic())

    def _settle(self, running: Running, happening: Happening) -> None:
        running.decision = decide(
            happening,
            attempt=running.claim.attempt,
            max_attempts=running.claim.max_attempts,
            backoff_base_seconds=self._processor.backoff_seconds,
        )
        running.decided_at = time.monotonic()
        self._unsettled.discard(running)
        if not self._unsettled:
            self._all_settled.set()
        if running.claim.suspect:
            self._ward.leave()
        self._settled(running)

    def _ask_to_stop(self, running: Running, reason: StopReason, *, cancel_at: float) -> None:
        running.context.ask_to_stop(reason)
        running.cancel_at = cancel_at

    def _cancel(self, running: Running, now: float) -> None:
        running.cancel_at = None
        running.abandon_at = now + self._cancel_seconds
        if running.task is not None:
            running.task.cancel()
        if not running.started:  # cancelled before its first step: it will never speak
            self._settle(running, GivenBack())

    def _abandon(self, running: Running) -> None:
        self.abandoned += 1
        reason = running.context.stop_reason
        _log.error("cancellation_ignored", queue=self._ledger.queue, item_id=str(running.context.item.id))
        timed_out = reason is StopReason.DEADLINE
        self._settle(running, Failed.with_code("deadline_exceeded") if timed_out else GivenBack())


def _was_asked(running: Running) -> bool:
    """Was it asked to stop for good? That its deadline is near is only a notice."""
    return running.context.stop_reason not in (None, StopReason.DEADLINE_NEAR)


async def _remove(folder: Path) -> None:
    """To its end, also when cancelled meanwhile: the attempt is over, and has to be settled."""
    removing = asyncio.ensure_future(asyncio.to_thread(remove, folder))
    while not removing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(removing)
