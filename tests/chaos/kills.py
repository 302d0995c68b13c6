"""`--every-point`: kill each role at each failpoint that it can reach, start it again, and look whether all is well."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from lingxi.services.claim_items import ItemKey, claim_items
from lingxi.services.queue_holds import hold_queue, resume_queue
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.storage import open_storage
from tests.chaos import receiver
from tests.chaos.ground import START_SECONDS, Ground, System
from tests.chaos.load import Load, light
from tests.chaos.receiver import receiving, undelivered
from tests.chaos.verdict import Verdict, judge, until_rest
from tests.chaos.watchers import Watchers
from tests.support.waiting import wait_until

_WEEKS_SECONDS = 30 * 86_400.0
_WATCHERS = 4
_MOST_TURNS = 40


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of one kill. `recovered_seconds`: from the kill to rest."""

    role: str
    point: str
    reached: bool
    recovered_seconds: float
    verdict: Verdict
    folder: Path

    @property
    def ok(self) -> bool:
        return self.reached and self.verdict.ok

    def line(self) -> str:
        """For people."""
        word = "ok" if self.ok else "FAILED"
        reached = f"recovered in {self.recovered_seconds:5.1f} s" if self.reached else "never reached"
        told = self.verdict
        return (
            f"{self.role:<11} {self.point:<38} {reached}  {told.accepted:>3} accepted, {told.final:>3} final, lost {told.lost}, "
            f"doubled {told.doubled}, wrong counters {told.wrong_counters}, missed {told.missed_by_watchers}  {word}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "point": self.point,
            "reached": self.reached,
            "recoveredSeconds": round(self.recovered_seconds, 1),
            **self.verdict.as_json(),
            "ok": self.ok,
            "problems": self.verdict.problems,
        }


async def kill_at(ground: Ground, folder: Path, role: str, point: str, *, patience_seconds: float) -> Killed:
    """One system, one kill. The processes' logs and the ledger stay in `folder`."""
    try:
        if not point.startswith("webhook."):
            async with System.open(ground, folder) as system:
                return await _kill_in(system, role, point, patience_seconds)
        async with System.open(ground, folder, **receiver.SETTINGS) as system, receiving(system) as taker:
            killed = await _kill_in(system, role, point, patience_seconds)
            for problem in await undelivered(system, taker):
                killed.verdict.say(problem)
            return killed
    except (ExceptionGroup, RuntimeError, AssertionError, TimeoutError) as error:
        reasons = error.exceptions if isinstance(error, ExceptionGroup) else [error]
        verdict = Verdict(problems=[f"{type(one).__name__}: {one}" for one in reasons])
        return Killed(role, point, (folder / f"{point}.reached").exists(), 0.0, verdict, folder)


async def _kill_in(system: System, role: str, point: str, patience_seconds: float) -> Killed:
    reached = system.folder / f"{point}.reached"
    await _start(system, role, point)
    load = Load(system.url, system.token)
    watchers = Watchers(system.port, system.token, load.accepted.subjects, _WATCHERS, seed=1)
    beside = [asyncio.create_task(watchers.run())]
    try:
        async with asyncio.timeout(START_SECONDS + patience_seconds), asyncio.TaskGroup() as group:
            guarding = group.create_task(system.guard())
            await _plant_orphan(system)
            await _plant_for(system, point)
            working = group.create_task(_work_until(load, reached.exists))
            killed_at = await _restart(system, role, point, reached.exists, working)
            await working
            rests = await until_rest(system, patience_seconds)
            recovered = time.monotonic() - killed_at
            guarding.cancel()
        beside.pop().cancel()
        verdict = await judge(system, load.accepted, watchers, patience_seconds)
        if not rests:
            verdict.say(f"it did not come to rest within {patience_seconds:g} s")
        if not reached.exists():
            verdict.say(f"no process of role {role} reached {point}")
        return Killed(role, point, reached.exists(), recovered, verdict, system.folder)
    finally:
        for task in beside:
            task.cancel()
        await load.close()


async def _start(system: System, role: str, point: str) -> None:
    """The dispatcher first where it is the one to die: who comes first leads."""
    armed = {"LINGXI_FAILPOINTS": f"{point}=kill@once"}
    if role == "dispatcher":
        system.start(role, **armed)

        async def leads() -> bool:
            return (system.folder / f"{point}.reached").exists() or await system.is_led()

        await wait_until(leads, START_SECONDS, "the dispatcher leads, or has been killed already")
    for other in ("api", "worker"):
        system.start(other, **(armed if other == role else {}))


async def _work_until(load: Load, reached: Callable[[], bool]) -> None:
    """Turns of light work until the point was reached, and one more for whoever comes after it."""
    await load.make_album()
    for turn in count(1):
        was_reached = reached()
        await load.run(light(turn))
        if was_reached or turn >= _MOST_TURNS:
            return


async def _restart(
    system: System, role: str, point: str, reached: Callable[[], bool], working: asyncio.Task[None]
) -> float:
    """Start again what was killed; a worker's parent does that by itself. Answers the moment of the kill."""
    while not reached():
        if working.done():
            return time.monotonic()
        await asyncio.sleep(0.02)
    killed_at = time.monotonic()
    if role != "worker":
        await wait_until(lambda: system.running[role].exit_code is not None, START_SECONDS, f"{role} is dead")
        assert system.running[role].exit_code == -9, system.running[role].tail()
        system.start(role)
    if point == "holds.after_apply":
        await _with_connection(system, lambda one: resume_queue(one, _HELD_QUEUE))
    return killed_at


async def _plant_for(system: System, point: str) -> None:
    """What has to be there for a point to be reached: a photo's job that never arrives in Redis; a held queue; a lost item."""
    if point == "photo_sweep.after_add":
        await _with_connection(system, lambda one: one.execute(_LOSE_PHOTO_JOBS))
    elif point == "holds.after_apply":
        await _with_connection(system, lambda one: hold_queue(one, _HELD_QUEUE, "paused"))
    elif point.startswith("sweep."):
        await _with_connection(system, _lose_an_item)


async def _lose_an_item(connection: asyncpg.Connection) -> None:
    """An item whose worker died with its machine, in its only attempt. Nobody here works on its queue: only a sweep ends it."""
    async with connection.transaction():
        workspace_id = await connection.fetchval("select id from workspaces order by created_at limit 1")
        task_id = (
            await submit_task(
                connection, NewTask(workspace_id, "demo:drill", 1, [None], ["{}"], max_attempts=1)
            )
        ).id
        await connection.execute(
            "update outbox_events set published_at = clock_timestamp() where task_id = $1", task_id
        )
        claimed = await claim_items(
            connection,
            "demo:drill",
            [ItemKey(task_id, 1)],
            worker="dead:1:boot",
            lease_seconds=0.0,
            time_limit_seconds=60.0,
        )
        assert claimed, "nothing was claimed"


async def _with_connection(system: System, work: Callable[[asyncpg.Connection], Awaitable[Any]]) -> None:
    connection = await asyncpg.connect(system.database_url)
    try:
        await work(connection)
    finally:
        await connection.close()


_HELD_QUEUE = "chaos:file"
_LOSE_PHOTO_JOBS = """
create function lose() returns trigger language plpgsql as $$ begin new.published_at = clock_timestamp(); return new; end $$;
create trigger lose before insert on outbox_events for each row when (new.type = 'photo.uploaded') execute function lose()
"""


async def _plant_orphan(system: System) -> None:
    """An old object that no row names, for the collector."""

    async def one() -> Any:
        yield b"left over"

    storage = open_storage(system.objects.as_uri())
    await storage.put(one(), max_bytes=100)
    await storage.close()
    old = time.time() - _WEEKS_SECONDS
    for path in system.objects.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
