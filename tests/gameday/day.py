"""One game day: fault after fault on one stage, each until its alert has fired, its entry was followed, and it is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.ground import own_ground
from tests.gameday.faults import Fault, Scene, end_of
from tests.gameday.load import Load
from tests.gameday.monitoring import Monitoring, monitoring
from tests.gameday.stage import open_stage
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 180.0
CANARY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wrong`: other alerts that somebody was told of. `problem`: what broke off the fault; None: nothing did."""

    name: str
    alert: str
    fired: bool
    resolved: bool
    wrong: list[str]
    fired_after_seconds: float | None = None
    seconds: float = 0.0
    problem: str | None = None

    @property
    def ok(self) -> bool:
        return self.fired and self.resolved and not self.wrong and self.problem is None

    def as_json(self) -> dict[str, Any]:
        found = {
            "alert": self.alert,
            "fired": self.fired,
            "resolved": self.resolved,
            "wrong": self.wrong,
            "firedAfterSeconds": self.fired_after_seconds,
            "seconds": self.seconds,
        }
        return found if self.problem is None else found | {"problem": self.problem}


async def game_day(
    folder: Path, faults: Sequence[Fault], *, scale: float, say: Callable[[str], None]
) -> list[Outcome]:
    """All of `faults`, with the times of rules, routes and canaries `scale` times shorter. Logs stay in `folder`."""
    folder.mkdir(parents=True)
    outcomes = []
    with own_ground() as ground:
        async with open_stage(ground, folder, canary_seconds=max(1.0, CANARY_SECONDS / scale)) as stage:
            load = Load(stage.url, stage.token)
            working = asyncio.create_task(load.run())
            async with monitoring(folder, f"127.0.0.1:{stage.port}", scale) as watching:
                await _work_is_seen(watching)
                await watching.quiet(PATIENCE_SECONDS)
                watching.pages.told.clear()
                say("all is well, and nobody was told of anything")
                for fault in faults:
                    outcomes.append(await _live_through(fault, Scene(stage, load, {}), watching))
                    say(_line(outcomes[-1]))
            working.cancel()
            await asyncio.wait([working])
            await load.client.aclose()
    return outcomes


async def _work_is_seen(watching: Monitoring) -> None:
    """Until Prometheus has scraped, workers were heard, and their canaries answered."""
    queries = ("lingxi_worker_heartbeat_age_seconds >= 0", "lingxi_canary_age_seconds")

    async def fact() -> bool:
        answers = [await watching.ask("query", query=query) for query in queries]
        return all(answer and len(answer["result"]) == 3 for answer in answers)

    await wait_until(fact, PATIENCE_SECONDS, "Prometheus sees workers and canaries")


async def _live_through(fault: Fault, scene: Scene, watching: Monitoring) -> Outcome:
    await watching.idle(PATIENCE_SECONDS)
    pages, began = watching.pages, time.monotonic()
    fired_after: float | None = None
    resolved, problem = False, None
    try:
        await fault.harm(scene)
        await _until(lambda: fault.alert in pages.firing.values(), f"{fault.alert} fires")
        fired_after = round(time.monotonic() - began, 1)
        await fault.mend(scene)
        await _until(lambda: fault.alert not in pages.firing.values(), f"{fault.alert} is over")
        resolved = True
        await end_of(scene)
        await watching.quiet(PATIENCE_SECONDS)
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error)[:500]}"
    wrong = sorted(pages.since(began) - {fault.alert})
    seconds = round(time.monotonic() - began, 1)
    return Outcome(
        fault.name, fault.alert, fired_after is not None, resolved, wrong, fired_after, seconds, problem
    )


async def _until(fact: Callable[[], bool], message: str) -> None:
    async def now() -> bool:
        return fact()

    await wait_until(now, PATIENCE_SECONDS, message)


def _line(outcome: Outcome) -> str:
    fired = f"fired after {outcome.fired_after_seconds} s" if outcome.fired else "DID NOT FIRE"
    over = f"over after {outcome.seconds} s" if outcome.resolved else "NOT RESOLVED"
    wrong = f", WRONG: {', '.join(outcome.wrong)}" if outcome.wrong else ""
    problem = f", {outcome.problem}" if outcome.problem else ""
    return f"{outcome.name}: {outcome.alert} {fired}, {over}{wrong}{problem}"
