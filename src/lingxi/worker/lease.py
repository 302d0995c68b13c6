"""Keeps what this process holds, from a thread with an event loop and connections of its own.

So a processor that blocks the main loop (a long `time.sleep`, a C call that lets the interpreter's lock go) loses nothing:
its lease in PostgreSQL and its job's lock in Redis go on. No lease is renewed past the attempt's deadline. The thread also
ends a process whose main loop does not come back, when it should stop or long after a deadline: it gives back everything but
what had its time, and exits.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence

from lingxi.broker.connection import connection_factory
from lingxi.broker.errors import BrokerError
from lingxi.broker.queue import BullQueue
from lingxi.db.session import Connection, connect, is_unavailable
from lingxi.domain.decide import Decision, Failed, decide
from lingxi.observability.logging import get_logger
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.photo_jobs import put_back_photo_job
from lingxi.services.renew_leases import renew_leases
from lingxi.worker.config import WorkerConfig
from lingxi.worker.ledger import Ledger, Running

_RETRY_SECONDS = 1.0
_HARD_STOP_TRY_SECONDS = 3.0
_log = get_logger("worker.lease")


class LeaseKeeper:
    """`lost(ledger, fences)` is called on this thread for attempts that somebody else may own by now."""

    def __init__(
        self,
        config: WorkerConfig,
        ledgers: Sequence[Ledger],
        lost: Callable[[Ledger, list[int]], None],
        end_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._config = config
        self._ledgers = ledgers
        self._lost = lost
        self._end_process = end_process
        self._connection: Connection | None = None
        self._hard_stop_at: float | None = None
        self._stuck_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)
        self._stopped = threading.Event()
        connections = connection_factory(config.redis_url)
        lock_ms = int(config.lock_seconds * 1000)
        self._queues = {
            ledger.queue: BullQueue(ledger.queue, connections, token=config.name, lock_ms=lock_ms)
            for ledger in ledgers
        }

    def start(self) -> None:
        """Begin; the first renewal is one interval away."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns when it has."""
        self._stopped.set()
        self._thread.join(timeout=5.0)

    def expect_end_within(self, seconds: float) -> None:
        """Unless `stop` is called before, everything is given back and the process ended. Safe in a signal handler."""
        if self._hard_stop_at is None:
            self._hard_stop_at = time.monotonic() + seconds

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        leases_due = time.monotonic() + self._config.lease_renew_seconds
        locks_due = time.monotonic() + self._config.lock_seconds / 3
        tick_seconds = min(0.1, self._config.lease_renew_seconds / 5)
        while not self._stopped.is_set():
            await asyncio.sleep(tick_seconds)
            now = time.monotonic()
            # counted in looks: of a process that was frozen no time has passed
            self._stuck_seconds = self._stuck_seconds + tick_seconds if self._is_stuck(now) else 0.0
            if self._stuck_seconds >= self._config.stuck_seconds or (
                self._hard_stop_at is not None and now >= self._hard_stop_at
            ):
                await self._stop_hard()
            if now >= leases_due:
                leases_due = now + (
                    self._config.lease_renew_seconds if await self._renew() else _RETRY_SECONDS
                )
            if now >= locks_due:
                locks_due = now + self._config.lock_seconds / 3
                await self._extend_locks()
        await self._close()

    def _is_stuck(self, now: float) -> bool:
        """Is there an attempt that the main loop would have cancelled and abandoned by now, if it ran?"""
        long_ago = now - self._config.cancel_seconds
        return any(
            running.decision is None and running.deadline < long_ago
            for ledger in self._ledgers
            for running in ledger.attempts.copy().values()
        )

    async def _renew(self) -> bool:
        held = [(ledger, running) for ledger in self._ledgers for running in ledger.attempts.copy().values()]
        held = [(ledger, running) for ledger, running in held if not running.expired]
        if not held:
            return True
        try:
            connection = await self._connected()
            asked = [(running.claim.key, running.claim.fence) for _, running in held]
            owned = await renew_leases(connection, asked, lease_seconds=self._config.lease_seconds)
        except Exception as error:
            await self._disconnect()
            if not is_unavailable(error):
                _log.error("leases_not_renewed", exc_info=error)
            return False
        for ledger in self._ledgers:
            fences = [
                r.claim.fence for of, r in held if of is ledger and (r.claim.key, r.claim.fence) not in owned
            ]
            if fences:
                self._lost(ledger, fences)
        return True

    async def _extend_locks(self) -> None:
        for ledger in self._ledgers:
            deliveries = list(ledger.deliveries.copy().values())
            try:
                if deliveries and (lost := await self._queues[ledger.queue].extend_locks(deliveries)):
                    _log.info("locks_lost", queue=ledger.queue, count=len(lost))  # PostgreSQL's lease decides
            except BrokerError as error:
                _log.debug("locks_not_extended", queue=ledger.queue, reason=str(error))

    async def _stop_hard(self) -> None:
        attempts = [running for ledger in self._ledgers for running in ledger.attempts.copy().values()]
        try:
            async with asyncio.timeout(_HARD_STOP_TRY_SECONDS):
                connection = await self._connected()
                await finish_items(connection, [_ending(running) for running in attempts])
                for claim in [claim for ledger in self._ledgers for claim in ledger.photos.copy().values()]:
                    await put_back_photo_job(
                        connection, claim, error=None, retry_after_seconds=0.0, charged=False
                    )
                for ledger in self._ledgers:
                    await self._queues[ledger.queue].give_back(list(ledger.deliveries.copy().values()))
            _log.error(
                "stopped_hard", reason="the event loop did not come back in time", given_back=len(attempts)
            )
            code = 0
        except Exception as error:
            _log.error("stopped_hard", reason=f"the event loop did not come back; {error}", given_back=0)
            code = 1
        self._stuck_seconds = 0.0
        self._end_process(code)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(
                self._config.database_url,
                name=f"lingxi leases {self._config.name}",
                hot=True,
                timeout_seconds=5.0,
            )
        return self._connection

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _close(self) -> None:
        await self._disconnect()
        for queue in self._queues.values():
            try:
                await queue.close()
            except Exception as error:
                _log.warning("close_failed", what="locks", reason=str(error)[:300])


def _ending(running: Running) -> Ending:
    """Given back, uncharged, while it had time left; else it would hold up one process after the other."""
    claim, decision = running.claim, Decision("released")
    if running.expired:
        too_late = Failed.with_code("deadline_exceeded")
        decision = decide(too_late, attempt=claim.attempt, max_attempts=claim.max_attempts)
    return Ending(claim.key, claim.fence, decision)
