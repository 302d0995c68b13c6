"""`--seed N --seconds S`: mixed work, random faults, a hundred watchers; then rest, and the verdict."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.faults import Scene, strike
from tests.chaos.ground import ROLES, START_SECONDS, Ground, System
from tests.chaos.load import Load
from tests.chaos.plan import Plan
from tests.chaos.verdict import Verdict, judge, until_rest
from tests.chaos.watchers import Watchers
from tests.support.proxy import CuttingProxy
from tests.support.waiting import wait_until

WATCHERS = 100
_FAULT_SECONDS = 90.0  # the longest that one fault may take with its mending


@dataclass(frozen=True, slots=True)
class Weathered:
    """What became of one seed."""

    plan: Plan
    verdict: Verdict
    faults: dict[str, int]  # tried
    seconds: float
    rest_seconds: float  # from the last mending to rest
    restarts: int
    connections: int  # of watchers
    folder: Path

    @property
    def ok(self) -> bool:
        return self.verdict.ok

    def as_json(self) -> dict[str, Any]:
        """The last line."""
        return {**self.verdict.as_json(), "faults": self.faults}

    def line(self) -> str:
        """For people."""
        told = self.verdict
        return (
            f"seed {self.plan.seed} (plan {self.plan.digest}): {sum(self.faults.values())} faults in {self.seconds:.0f} s, "
            f"at rest {self.rest_seconds:.1f} s after the last; {self.connections} connections of watchers, "
            f"{self.restarts} restarts, {told.repeated_outside} attempts without effect: {'ok' if self.ok else 'FAILED'}"
        )


async def weather(
    ground: Ground, folder: Path, plan: Plan, *, patience_seconds: float, watchers: int = WATCHERS
) -> Weathered:
    """One storm on a fresh database. Logs, the plan and the ledger stay in `folder`."""
    since = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.txt").write_text("".join(fault.line() + "\n" for fault in plan.faults))
    servers = ground.servers
    with CuttingProxy.to(servers.database_url) as to_postgres, CuttingProxy.to(servers.redis_url) as to_redis:
        async with System.open(ground, folder) as system:
            system.settings |= {
                "DATABASE_URL": to_postgres.url(system.database_url),
                "REDIS_URL": to_redis.url(system.redis_url),
            }
            system.processes = 2
            for role in ROLES:
                system.start(role)
            scene = Scene(system, ground, to_postgres, to_redis)
            load = Load(system.url, system.token)
            seeing = Watchers(system.port, system.token, load.accepted.subjects, watchers, plan.seed)
            beside = [asyncio.create_task(scene.keep()), asyncio.create_task(seeing.run())]
            try:
                await _until_serving(load, system)
                async with asyncio.timeout(
                    plan.seconds + patience_seconds + _FAULT_SECONDS * len(plan.faults)
                ):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(load.run(plan.steps))
                        striking = group.create_task(_strike_all(scene, plan))
                mended = time.monotonic()
                rests = await until_rest(system, patience_seconds)
                rest_seconds = time.monotonic() - mended
                beside.pop().cancel()
                verdict = await judge(system, load.accepted, seeing, patience_seconds)
                if not rests:
                    verdict.say(f"it did not come to rest within {patience_seconds:g} s of the last mending")
            finally:
                for task in beside:
                    task.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.gather(*beside)
                await load.close()
            return Weathered(
                plan,
                verdict,
                striking.result(),
                time.monotonic() - since,
                rest_seconds,
                scene.restarts,
                seeing.connections,
                folder,
            )


async def _until_serving(load: Load, system: System) -> None:
    """Albums for the photos: so the API answers. And worker processes are there to be harmed."""
    async with asyncio.timeout(START_SECONDS):
        for _ in range(2):
            await load.make_album()
        await wait_until(
            lambda: len(system.children()) == system.processes, START_SECONDS, "workers are there"
        )


async def _strike_all(scene: Scene, plan: Plan) -> dict[str, int]:
    """The plan's faults, one after another, each in its time or as soon as the one before is mended; how often each was tried."""
    start = time.monotonic()
    tried: Counter[str] = Counter()
    with open(scene.system.folder / "faults.txt", "w", buffering=1) as diary:
        for fault in plan.faults:
            await asyncio.sleep(max(0.0, start + fault.at - time.monotonic()))
            diary.write(f"{time.strftime('%H:%M:%S')} {fault.line()}\n")
            async with asyncio.timeout(_FAULT_SECONDS):
                await strike(scene, fault)
            tried[fault.name] += 1
            diary.write(f"{time.strftime('%H:%M:%S')} mended\n")
    return dict(sorted(tried.items()))
