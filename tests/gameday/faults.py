"""The faults: what is done to the stage, which alert has to fire, and which of the runbook's commands ends it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import httpx

from tests.gameday.load import MISSING, Load
from tests.gameday.runbook import command, typed
from tests.gameday.stage import DISK_BYTES, Stage
from tests.support.processes import Process

BACKLOG_ITEMS: Final = 1_000
BACKLOG_ITEM_MS: Final = 1_000
FAILING_BATCH: Final = 160


@dataclass(slots=True)
class Scene:
    """What a fault may touch. `notes`: what `harm` leaves for `mend`."""

    stage: Stage
    load: Load
    notes: dict[str, Any]

    async def type_in(self, line: str) -> str:
        """A command of the runbook, on the machine of the stage."""
        return await typed(line, self.stage.environment())


Step = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """`alert` must fire after `harm` and be over after `mend`; no other may."""

    name: str
    alert: str
    harm: Step
    mend: Step


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────
async def _stop_media(scene: Scene) -> None:
    await scene.type_in("systemctl stop lingxi-worker@media")


def _restarts(alert: str, *, group: str = "media") -> Step:
    async def mend(scene: Scene) -> None:
        await scene.type_in(command(alert, "systemctl restart", GROUP=group))

    return mend


async def _hang_media(scene: Scene) -> None:
    """The next start of the group has a worker that stops for ever before its first claim, and goes on to beat."""
    scene.stage.failpoints["lingxi-worker@media"] = "worker.before_claim=pause@once"
    await scene.type_in("systemctl restart lingxi-worker@media")


# ── servers ──────────────────────────────────────────────────────────────────────────────────────────────
def _stops(unit: str) -> Step:
    async def harm(scene: Scene) -> None:
        await scene.type_in(f"systemctl stop {unit}")

    return harm


# ── work ─────────────────────────────────────────────────────────────────────────────────────────────────
async def _bad_payload(scene: Scene) -> None:
    """An event that names no album. Nine of its ten tries are already behind it: the waits between them are minutes."""
    connection = await asyncpg.connect(scene.stage.database_url)
    try:
        scene.notes["event"] = await connection.fetchval(
            "insert into outbox_events (type, workspace_id, payload, attempts) "
            "values ('photo.updated', $1, '{\"v\": 1}', 9) returning id",
            scene.stage.workspace_id,
        )
    finally:
        await connection.close()


async def _redrive(scene: Scene) -> None:
    listed = await scene.type_in(command("LingxiOutboxDeadLetter", "lingxi dead-letters list"))
    assert re.search(rf"\b{scene.notes['event']}\b", listed), listed
    payload = json.dumps({"v": 1, "albumId": str(scene.stage.album_id)})
    line = command(
        "LingxiOutboxDeadLetter",
        "lingxi dead-letters redrive ID --payload",
        ID=str(scene.notes["event"]),
        PAYLOAD=f"'{payload}'",
    )
    await scene.type_in(line)


async def _six_percent(scene: Scene) -> None:
    """One picture in sixteen is not there: of a batch that outweighs what went well before, and of the load from now on."""
    finished = await _finished_in_the_hour(scene)
    scene.load.missing_in = 16
    items = scene.load.some_pictures(16) * (FAILING_BATCH // 16)
    missing = max(0, round(0.065 * (finished + len(items))) - FAILING_BATCH // 16)
    items += [{"input": {"object": MISSING}}] * missing
    scene.notes["task"] = await scene.load.submit("media:verify", items)


async def _finished_in_the_hour(scene: Scene) -> int:
    async with httpx.AsyncClient() as client:
        health = (await client.get(f"{scene.stage.url}/api/v1/health/queues")).json()
    counts = next(one["counts"] for one in health["queues"] if one["queue"] == "media:verify")
    return int(counts["completed"] + counts["failed"])


async def _bring_the_pictures(scene: Scene) -> None:
    scene.load.missing_in = 0
    await scene.load.put(MISSING)
    line = command(
        "LingxiQueueHighFailureRatio",
        "lingxi retry-failed",
        TASK=scene.notes["task"],
        CODE="object_not_found",
    )
    await scene.type_in(line)
    # The ratio is of the last hour, which no game day waits for: much that goes well brings it down.
    for _ in range(3):
        await scene.load.submit("media:verify", scene.load.some_pictures(FAILING_BATCH))


async def _pile_up(scene: Scene) -> None:
    await scene.load.submit("demo:drill", [{"input": {"durationMs": BACKLOG_ITEM_MS}}] * BACKLOG_ITEMS)


async def _add_a_worker(scene: Scene) -> None:
    """The further worker is on a larger machine, and stays to the end of the fault."""
    line = command("LingxiQueueBacklog", "QUEUE=GROUP", GROUP="demo")
    stage = scene.stage
    process = Process(
        ["/bin/sh", "-c", f"exec env {line}"],
        stage.environment(LINGXI_CONCURRENCY="demo:drill=200"),
        stage.folder,
        "more",
    )
    stage.started.append(process)
    scene.notes["more"] = process


async def _fill_the_disk(scene: Scene) -> None:
    """Somebody's forgotten file."""
    path = scene.stage.disk / "core.4711"
    free = shutil.disk_usage(scene.stage.disk).free
    with path.open("wb") as file:
        for _ in range((free - DISK_BYTES // 20) >> 20):
            file.write(bytes(1 << 20))
    scene.notes["path"] = str(path)


async def _free_the_disk(scene: Scene) -> None:
    alert = "LingxiDiskNearlyFull"
    await scene.type_in(command(alert, "rm ", PATH=scene.notes["path"]))
    await scene.type_in(command(alert, "lingxi storage collect"))


async def end_of(scene: Scene) -> None:
    """What a fault needed until it was over."""
    if (more := scene.notes.pop("more", None)) is not None:
        await asyncio.to_thread(more.stop)
    scene.stage.failpoints.clear()


FAULTS: Final = (
    Fault("a payload that cannot be sent", "LingxiOutboxDeadLetter", _bad_payload, _redrive),
    Fault("redis down", "LingxiRedisDown", _stops("valkey"), _restarts("LingxiRedisDown")),
    Fault("postgresql stopped", "LingxiPostgresDown", _stops("postgresql"), _restarts("LingxiPostgresDown")),
    Fault("disk nearly full", "LingxiDiskNearlyFull", _fill_the_disk, _free_the_disk),
    Fault("worker group stopped", "LingxiWorkerHeartbeatMissing", _stop_media, _restarts("LingxiWorkerHeartbeatMissing")),
    Fault("worker hung but heartbeating", "LingxiCanaryUnanswered", _hang_media, _restarts("LingxiCanaryUnanswered")),
    Fault("backlog", "LingxiQueueBacklog", _pile_up, _add_a_worker),
    Fault("six percent fail", "LingxiQueueHighFailureRatio", _six_percent, _bring_the_pictures),
)  # fmt: skip
