"""The parent of N worker processes: starts them, starts them again, and tells PostgreSQL at once when one died.

Without that, what a killed process was running would wait for its leases to run out. It runs no work itself, so it
survives what kills workers: a poison item, the kernel's out-of-memory killer, a crash in a C library.
"""

import asyncio
import os
import signal
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lingxi.db.session import connect
from lingxi.observability.logging import get_logger
from lingxi.processors.scratch import remove_owner
from lingxi.services.photo_jobs import put_back_stale_photo_jobs
from lingxi.services.sweep_leases import sweep_leases
from lingxi.services.worker_processes import forget_worker
from lingxi.worker.config import new_boot, worker_name
from lingxi.worker.outage import pause_seconds
from lingxi.worker.presence import EXIT_STOPPED_BY_HAND
from lingxi.worker.shutdown import StopSignals

_SETTLED_SECONDS = 30.0  # a child that lived so long starts again at once
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
_MARGIN_SECONDS = 5.0
_MOST_PHOTOS = 10_000
_log = get_logger("worker.supervisor")


@dataclass(frozen=True, slots=True)
class SupervisorConfig:
    """`command(boot)` is the argument list of a child; it must call `run_worker_process(…, parent_pid=…)` with that boot."""

    command: Callable[[str], Sequence[str]]
    processes: int
    database_url: str
    stop_seconds: float  # WorkerConfig.longest_stop_seconds: a child that takes longer is killed
    environment: Mapping[str, str] | None = None  # None: this process's own
    scratch_root: Path | None = None  # where children have their scratch folders


class Supervisor:
    """`run()` until SIGTERM or SIGINT, or until each child was stopped by hand; a second signal ends everything at once."""

    def __init__(self, config: SupervisorConfig) -> None:
        self._config = config
        self._stop = asyncio.Event()
        self._children: set[int] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._clean = True

    async def run(self) -> int:
        """The exit code: 0 when every child stopped in order."""
        signals = StopSignals(self._asked_to_stop, second=self._at_once)
        signals.install()
        self._loop = asyncio.get_running_loop()
        _log.info("supervisor_started", processes=self._config.processes, pid=os.getpid())
        await asyncio.gather(*(self._keep_one() for _ in range(self._config.processes)))
        if self._ending:
            await asyncio.wait(self._ending, timeout=_MARGIN_SECONDS)
        _log.info("supervisor_stopped", clean=self._clean)
        return 0 if self._clean else 1

    async def _keep_one(self) -> None:
        """One place: a child, and another one after it, until the stop."""
        quick_deaths = 0
        while not self._stop.is_set():
            boot, since = new_boot(), time.monotonic()
            command = self._config.command(boot)
            child = await asyncio.create_subprocess_exec(*command, env=self._config.environment)
            self._children.add(child.pid)
            code = await self._wait(child)
            self._children.discard(child.pid)
            if code == EXIT_STOPPED_BY_HAND:
                _log.info("worker_stopped_by_hand", pid=child.pid)
                return
            # Killed by the SIGTERM itself: it had not begun yet, and holds nothing.
            if self._stop.is_set() and code in (0, -signal.SIGTERM):
                return
            if self._stop.is_set():
                self._clean = False
            _log.warning(
                "worker_died", pid=child.pid, exit_code=code, seconds=round(time.monotonic() - since, 1)
            )
            if (root := self._config.scratch_root) is not None:
                await asyncio.to_thread(remove_owner, root, boot)
            self._in_background(self._end_leases(boot, child.pid))
            quick_deaths = 0 if time.monotonic() - since >= _SETTLED_SECONDS else quick_deaths + 1
            await self._pause(quick_deaths)

    async def _wait(self, child: Process) -> int:
        """Until it ends; once the stop was asked it has so long for it, and is killed then."""
        ends = asyncio.create_task(child.wait())
        stops = asyncio.create_task(self._stop.wait())
        await asyncio.wait({ends, stops}, return_when=asyncio.FIRST_COMPLETED)
        stops.cancel()
        if not ends.done():
            child.terminate()
            await asyncio.wait({ends}, timeout=self._config.stop_seconds + _MARGIN_SECONDS)
        if not ends.done():
            _log.error("worker_killed", pid=child.pid, reason="it did not stop in time")
            child.kill()
        return await ends

    async def _pause(self, quick_deaths: int) -> None:
        if quick_deaths > 1:
            seconds = min(_FIRST_WAIT_SECONDS * 2.0 ** (quick_deaths - 2), _LONGEST_WAIT_SECONDS)
            try:
                async with asyncio.timeout(seconds):
                    await self._stop.wait()
            except TimeoutError:
                pass

    async def _end_leases(self, boot: str, pid: int) -> None:
        """End what the dead process was running; until that worked, its leases run out by themselves."""
        failures, worker = 0, worker_name(boot, pid)
        while True:
            try:
                ended = await self._end_leases_once(worker, boot)
            except Exception as error:
                failures += 1
                if failures == 1:
                    _log.warning(
                        "leases_not_ended", worker=worker, reason=f"{type(error).__name__}: {error}"[:300]
                    )
                await asyncio.sleep(pause_seconds(failures))
                continue
            _log.info("leases_ended", worker=worker, count=ended)
            return

    async def _end_leases_once(self, worker: str, boot: str) -> int:
        connection = await connect(self._config.database_url, name="lingxi supervisor", hot=True)
        try:
            total = len(await put_back_stale_photo_jobs(connection, limit=_MOST_PHOTOS, worker=worker))
            total += (await sweep_leases(connection, worker=worker)).lost
            await forget_worker(connection, boot)
            return total
        finally:
            connection.terminate()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _asked_to_stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    def _at_once(self) -> None:
        for pid in list(self._children):
            os.kill(pid, signal.SIGKILL)


def run_supervisor(config: SupervisorConfig) -> int:
    """Run a supervisor to its end; from the main thread, which the children's lives are tied to."""

    async def main() -> int:
        return await Supervisor(config).run()

    return asyncio.run(main())
