"""After the storm: wait for rest, and hold rows, ledger and watchers against what was accepted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from lingxi.domain.ids import item_id
from tests.chaos.ground import System
from tests.chaos.load import Accepted
from tests.chaos.watchers import View, Watchers
from tests.support.soundness import violations

_LOOK_SECONDS = 0.2
_DEAD_PHOTO_SECONDS = 20.0
_MOST_NAMED = 20


@dataclass
class Verdict:
    """What was found; `problems` are sentences, the first of each kind."""

    accepted: int = 0
    final: int = 0
    lost: int = 0
    doubled: int = 0
    wrong_counters: int = 0
    missed_by_watchers: int = 0
    repeated_outside: int = 0  # attempts whose work ran and took no effect: the price of "at least once"
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing lost, doubled, miscounted or missed, and nothing else was seen."""
        return self.accepted == self.final and not (
            self.lost or self.doubled or self.wrong_counters or self.missed_by_watchers or self.problems
        )

    def say(self, problem: str) -> None:
        if len(self.problems) < _MOST_NAMED:
            self.problems.append(problem)

    def as_json(self) -> dict[str, Any]:
        """The wire's names, in their order."""
        return {
            "ok": self.ok,
            "accepted": self.accepted,
            "final": self.final,
            "lost": self.lost,
            "doubled": self.doubled,
            "wrongCounters": self.wrong_counters,
            "missedByWatchers": self.missed_by_watchers,
        }


async def until_rest(system: System, patience_seconds: float) -> bool:
    """Until nothing is to be done any more: no live task, no photo on its way, no event to send, no plan. False: it never came.

    A photo whose worker and whose worker's parent died at once waits five minutes for the sweep: that time is passed
    by moving its lease back, once nobody has renewed it for long.
    """
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        try:
            connection = await asyncpg.connect(system.database_url)
        except (OSError, asyncpg.PostgresError):
            await asyncio.sleep(_LOOK_SECONDS)
            continue
        try:
            while time.monotonic() < end:
                if await connection.fetchval(_RESTS):
                    return True
                await connection.execute(_AGE_DEAD_PHOTOS, _DEAD_PHOTO_SECONDS)
                await asyncio.sleep(_LOOK_SECONDS)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            continue
        finally:
            connection.terminate()
    return False


_RESTS = """
select not exists (select from media_tasks where finished_at is null)
   and not exists (select from photo_jobs where state in ('pending', 'active'))
   and not exists (select from outbox_events where published_at is null)
   and not exists (select from retry_plans where state = 'waiting')
"""
_AGE_DEAD_PHOTOS = """
update photo_jobs set lease_renewed_at = lease_renewed_at - interval '6 minutes'
 where state = 'active' and lease_renewed_at < now() - make_interval(secs => $1)
"""


async def judge(
    system: System, accepted: Accepted, watchers: Watchers | None, patience_seconds: float
) -> Verdict:
    """Everything that can be said about a system at rest (or one that finds none)."""
    verdict = Verdict(problems=list(accepted.wrong[:_MOST_NAMED]))
    connection = await asyncpg.connect(system.database_url)
    try:
        items = await connection.fetch(
            "select i.task_id, i.position, i.state, i.attempt_id from media_task_items i"
            " join media_tasks t on t.id = i.task_id where t.type like 'chaos:%'"
        )
        await _judge_items(connection, accepted, items, verdict)
        await _judge_photos(connection, accepted, verdict)
        judge_ledger(system.ledger, items, await connection.fetch("select * from chaos.effects"), verdict)
        await _judge_counters(connection, verdict)
        if watchers is not None:
            cursors = {
                f"media-tasks/{row['id']}": int(row["last_seq"])
                for row in await connection.fetch("select id, last_seq from media_tasks")
            } | {
                f"albums/{row['id']}": int(row["last_seq"])
                for row in await connection.fetch("select id, last_seq from albums")
            }
            await watchers.catch_up(cursors, patience_seconds)
            await _judge_views(connection, watchers.views, items, verdict)
    finally:
        await connection.close()
    for violation in await violations(system.database_url):
        verdict.wrong_counters += 1
        verdict.say(f"{violation.invariant}: {violation.subject}: {violation.detail}")
    for traceback in system.tracebacks():
        verdict.say(f"an unexpected error in a log: {traceback}")
    return verdict


async def _judge_items(
    connection: asyncpg.Connection, accepted: Accepted, items: list[asyncpg.Record], verdict: Verdict
) -> None:
    """What was accepted is there and final, and nothing is there that was not."""
    final = Counter(
        str(row["task_id"]) for row in items if row["state"] in ("succeeded", "failed", "cancelled")
    )
    verdict.accepted += accepted.items
    for task_id, count in accepted.tasks.items():
        verdict.final += min(count, final[task_id])
        if final[task_id] != count:
            verdict.lost += abs(count - final[task_id])
            verdict.say(f"task {task_id}: {final[task_id]} of {count} items are final")
    for row in await connection.fetch("select id, total_items from media_tasks where type like 'chaos:%'"):
        if str(row["id"]) not in accepted.tasks:
            verdict.doubled += row["total_items"]
            verdict.say(f"task {row['id']} is there, and nobody was told so although everybody asked again")


async def _judge_photos(connection: asyncpg.Connection, accepted: Accepted, verdict: Verdict) -> None:
    rows = await connection.fetch(
        "select p.id, p.processing_state, p.entity_version,"
        " (select count(*) from photo_variants v where v.photo_id = p.id) as variants from photos p"
    )
    there = {str(row["id"]): row for row in rows}
    for photo_id in accepted.photos:
        row = there.get(photo_id)
        if row is None or row["processing_state"] not in ("ready", "processing_failed"):
            verdict.lost += 1
            verdict.say(f"photo {photo_id} is {row['processing_state'] if row else 'gone'}")
            continue
        verdict.final += 1
        if row["entity_version"] != 1 or (row["processing_state"] == "ready") != (row["variants"] == 2):
            verdict.doubled += 1
            verdict.say(f"photo {photo_id}: {dict(row)}")
    for photo_id in there.keys() - accepted.photos.keys():
        verdict.doubled += 1
        verdict.say(f"photo {photo_id} is there, and nobody was told so although everybody asked again")
    names = await connection.fetch("select name from objects")
    if missing := accepted.objects - {row["name"] for row in names}:
        verdict.lost += len(missing)
        verdict.say(f"objects that were accepted are gone: {sorted(missing)[:5]}")


def judge_ledger(
    ledger: Path, items: list[asyncpg.Record], effects: list[asyncpg.Record], verdict: Verdict
) -> None:
    """See docs/chaos.md, "How doubled and lost are judged"."""
    lines = [line.split() for line in ledger.read_text().splitlines()]
    ran = Counter(
        (UUID(task), int(position), int(attempt))
        for what, task, position, attempt, _ in lines
        if what == "ran"
    )
    told = {
        (UUID(task), int(position), int(attempt))
        for what, task, position, attempt, _ in lines
        if what == "committed"
    }
    made = Counter((row["task_id"], row["position"]) for row in effects)
    owners = {(row["task_id"], row["position"], row["attempt_id"]) for row in effects}
    by_item = {(row["task_id"], row["position"]): row for row in items}
    for attempt, count in ran.items():
        if count > 1:
            verdict.doubled += count - 1
            verdict.say(f"attempt {attempt} ran {count} times")
    for item, count in made.items():
        row = by_item.get(item)
        if count > 1:
            verdict.doubled += count - 1
            verdict.say(f"item {item} took effect {count} times")
        if row is None or row["state"] != "succeeded" or (*item, row["attempt_id"]) not in owners:
            verdict.doubled += 1
            verdict.say(f"item {item} took effect, and is {dict(row) if row else 'gone'}")
    for attempt in told:
        row = by_item.get(attempt[:2])
        if row is None or row["state"] != "succeeded" or row["attempt_id"] != attempt[2]:
            verdict.lost += 1
            verdict.say(
                f"attempt {attempt} was told that it had committed; the item is {dict(row) if row else 'gone'}"
            )
    ran_by_item = {attempt[:2] for attempt in ran}
    for item, row in by_item.items():
        if row["state"] == "succeeded" and item not in ran_by_item:
            verdict.lost += 1
            verdict.say(f"item {item} succeeded, and never ran")
    verdict.repeated_outside = len(ran) - len(ran_by_item)


async def _judge_counters(connection: asyncpg.Connection, verdict: Verdict) -> None:
    """Counted by a statement of our own."""
    for row in await connection.fetch(_COUNTERS):
        verdict.wrong_counters += 1
        verdict.say(f"counters: {dict(row)}")


_COUNTERS = """
select t.id, t.status, t.total_items, t.succeeded_items, t.failed_items, t.cancelled_items, c.*
  from media_tasks t join lateral (
       select count(*) as n, count(*) filter (where state = 'succeeded') as s, count(*) filter (where state = 'failed') as f,
              count(*) filter (where state = 'cancelled') as c from media_task_items i where i.task_id = t.id) c on true
 where (t.total_items, t.succeeded_items, t.failed_items, t.cancelled_items) is distinct from (c.n, c.s, c.f, c.c)
    or t.status::text is distinct from case when c.s + c.f + c.c < c.n then t.status::text when c.c > 0 then 'cancelled'
       when c.s = c.n then 'succeeded' when c.f = c.n then 'failed' else 'partially_failed' end
"""


async def _judge_views(
    connection: asyncpg.Connection, views: list[View], items: list[asyncpg.Record], verdict: Verdict
) -> None:
    expected: dict[str, dict[str, Any]] = {}
    for row in items:
        states = expected.setdefault(f"media-tasks/{row['task_id']}", {})
        states[str(item_id(row["task_id"], row["position"]))] = row["state"]
    for row in await connection.fetch("select id, album_id, processing_state, entity_version from photos"):
        states = expected.setdefault(f"albums/{row['album_id']}", {})
        states[str(row["id"])] = (row["processing_state"], row["entity_version"])
    for view in views:
        states = expected.get(view.path, {})
        wrong = [
            name for name in states.keys() | view.states.keys() if states.get(name) != view.states.get(name)
        ]
        missed = len(wrong) + view.backwards + (view.path.startswith("media-tasks/") and view.ended is None)
        if missed:
            verdict.missed_by_watchers += missed
            example = [(name, view.states.get(name), states.get(name)) for name in wrong[:3]]
            verdict.say(
                f"a watcher of {view.path} at {view.last} missed {len(wrong)} states, {view.backwards} backwards, "
                f"end {'seen' if view.ended else 'missed'}: (id, seen, stored) {example}"
            )
