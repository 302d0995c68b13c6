"""Rows that somebody writes into the outbox by hand: each is charged, told or left waiting; none stops the dispatcher."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from lingxi import names
from lingxi.db.query import sql
from lingxi.services.dead_letters import list_dead_letters
from tests.support.waiting import wait_until
from tests.support.work import Work

INSERT = """
insert into outbox_events (type, queue, workspace_id, priority, task_id, round, first_position, last_position, positions,
                           item_count, payload, attempts, next_attempt_at, created_at, last_error)
select type, queue, workspace_id, coalesce(priority, 1), task_id, round, first_position, last_position, positions,
       coalesce(item_count, 0), coalesce(payload, '{"v": 1}'), coalesce(attempts, 0), coalesce(next_attempt_at, now()),
       coalesce(created_at, now()), last_error
  from jsonb_populate_record(null::outbox_events, $1::jsonb)
returning id"""
BIG = 2**31 - 1
Row = dict[str, Any]


def items(**more: Any) -> Row:
    return {"type": "items.queued", "queue": "demo:drill", "task_id": str(uuid4()), "round": 1, "item_count": 1,
            "first_position": 1, "last_position": 1, **more}  # fmt: skip


def told(payload: Any, type: str = "photo.published", **more: Any) -> Row:
    return {"type": type, "payload": payload, **more}


CHARGED: dict[str, Row] = {
    "a payload that is a list": told([]),
    "a payload that is null": told(None),
    "a payload that is text": told("x"),
    "ids of another type": told({"v": 1, "albumId": 7, "photoId": []}),
    "no ids": told({"v": 1}),
    "braces around an id": told({"v": 1, "albumId": f"{{{uuid4()}}}"}),
    "an upload without a photo": told({"v": 1, "albumId": str(uuid4())}, "photo.uploaded"),
    "an upload with a list": told([1], "photo.uploaded"),
    "the end of no task": told({"v": 1}, "task.ended"),
    "a queue that can be none": items(queue="no such queue"),
    "an empty queue": items(queue=""),
    "a priority below all": items(priority=-5),
    "a priority above all": items(priority=32_767),
    "attempts without end": told([], attempts=BIG),
    "attempts below none": told([], attempts=-BIG),
    "due since for ever": told([], next_attempt_at="-infinity"),
    "written in no time": told([], created_at="infinity"),
}
PUBLISHED: dict[str, Row] = {
    "items of no task": items(),
    "all positions that there can be": items(first_position=-BIG, last_position=BIG),
    "positions the wrong way": items(first_position=5, last_position=1),
    "positions twice, below and beyond": items(
        first_position=None, last_position=None, positions=[0, -1, 1, 1, BIG]
    ),
    "no positions": items(first_position=None, last_position=None, positions=[]),
    "no round": items(round=None),
    "the end of a task that is not there": told({"v": 1}, "task.ended", task_id=str(uuid4())),
    "a huge payload": told({"v": 1, "albumId": str(uuid4()), "x": "ä" * 3_000_000}),
    "a version of text": told({"v": "newest", "albumId": str(uuid4())}),
    "a workspace that is not there": told({"v": 1, "albumId": str(uuid4())}, workspace_id=str(uuid4())),
    "a due time of long ago": items(next_attempt_at="4713-01-01 BC"),
}
WAITING: dict[str, Row] = {
    "an unknown type": told({"v": 1}, "no.such"),
    "no type at all": told({"v": 1}, ""),
    "a newer version": told({"v": 2, "albumId": str(uuid4())}),
    "a version beyond all numbers": told({"v": 10**400, "albumId": str(uuid4())}),
    "a version between two": items(payload={"v": 1.5}),
    "a queue of another deployment": items(queue="some:where"),
    "due never": items(next_attempt_at="infinity"),
    "a dead letter": items(last_error="dead_lettered"),
}


async def put(work: Work, row: Row) -> int:
    event_id: int = await work.pool.fetchval(INSERT, json.dumps(row))
    return event_id


async def fates(work: Work, ids: list[int]) -> list[str]:
    rows = await work.pool.fetch(
        "select published_at, last_error, error_detail from outbox_events where id = any($1) order by id", ids
    )
    return [
        "published" if row["published_at"] else "charged" if row["last_error"] == "send_failed"
        or row["error_detail"] else "waiting"
        for row in rows
    ]  # fmt: skip


async def sound_work_is_done(work: Work) -> None:
    task_id = await work.submit({}, {})
    assert (await work.ended(task_id, 60))["status"] == "succeeded"


@pytest.mark.parametrize(
    ("rows", "fate"),
    [(CHARGED, "charged"), (PUBLISHED, "published"), (WAITING, "waiting")],
    ids=["charged", "published", "waiting"],
)
async def test_each_row_has_its_fate_and_sound_work_goes_on(
    work: Work, rows: dict[str, Row], fate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, among and behind them a task is done; nothing of it costs the dispatcher a round."""
    async with work.worker():
        await sound_work_is_done(work)
        ids = [await put(work, row) for row in rows.values()]
        await sound_work_is_done(work)

        async def decided() -> bool:
            return fate == "waiting" or "waiting" not in await fates(work, ids)

        await wait_until(decided, 30)
        found = dict(zip(rows, await fates(work, ids), strict=True))
        assert {name: is_now for name, is_now in found.items() if is_now != fate} == {}
    out = "".join(capsys.readouterr())
    assert "dispatch_round_failed" not in out and "Traceback" not in out
    await work.pool.execute("delete from outbox_events where id = any($1)", ids)


async def test_whatever_is_a_dead_letter_can_be_listed(work: Work) -> None:
    """Its reader takes any payload, time and count; and the figures of the outbox are there, too."""
    rows = {**CHARGED, **PUBLISHED, **WAITING, "a number beyond all": told({"v": 1, "x": 10**4000})}
    ids = [await put(work, {**row, "last_error": "dead_lettered"}) for row in rows.values()]
    async with work.pool.acquire() as connection:
        letters = await list_dead_letters(connection, None, limit=100)
        assert await connection.fetchval(sql("outbox/oldest_due"), [0, 1, 2]) == 0
    assert [letter.id for letter in letters] == ids
    assert len(json.loads(json.dumps([letter.to_wire() for letter in letters]))) == len(ids)
    await work.pool.execute("delete from outbox_events where id = any($1)", ids)


async def test_an_error_that_nobody_foresaw_is_charged_to_its_event_alone(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a row does to the code that reads it: the round is tried again one by one, and the guilty one is found."""
    from lingxi.outbox import dispatcher

    prepare = dispatcher.prepare_alone

    def fragile(row: Any, prepared: Any) -> None:
        if row["round"] == 66:
            raise ZeroDivisionError("nobody foresaw it")
        prepare(row, prepared)

    monkeypatch.setattr(dispatcher, "prepare_alone", fragile)
    bad = [await put(work, told({"v": 1, "albumId": str(uuid4())}, round=66)) for _ in range(3)]
    good = [await put(work, told({"v": 1, "albumId": str(uuid4())})) for _ in range(3)]

    async def decided() -> bool:
        return await fates(work, bad) == ["charged"] * 3 and await fates(work, good) == ["published"] * 3

    await wait_until(decided, 30)
    rows = await work.pool.fetch("select error_detail from outbox_events where id = any($1)", bad)
    assert {row["error_detail"] for row in rows} == {"ZeroDivisionError: nobody foresaw it"}
    await work.pool.execute("delete from outbox_events where id = any($1)", [*bad, *good])


NAMES = some.sampled_from(["v", "albumId", "photoId", "type", "x"])
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
SMALL = some.integers(-(2**31), 2**31 - 1)
ROWS = some.fixed_dictionaries(
    {"type": some.sampled_from([*names.EVENT_TYPES, "no.such"]), "payload": JSON},
    optional={
        "queue": some.sampled_from(["demo:drill", "photo:process", "some:where", "?", ""]),
        "priority": some.integers(-(2**15), 2**15 - 1), "round": SMALL, "attempts": SMALL,
        "task_id": some.uuids().map(str), "workspace_id": some.uuids().map(str),
        "first_position": SMALL, "last_position": SMALL, "positions": some.lists(SMALL, max_size=4), "item_count": SMALL,
        "next_attempt_at": some.sampled_from(["-infinity", "infinity", "now", "4713-01-01 BC"]),
    },
)  # fmt: skip


@pytest.mark.parametrize(
    "count", [60, pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
async def test_random_rows(work: Work, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[Row] = []

    @settings(max_examples=count, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(ROWS)
    def draw(row: Row) -> None:
        drawn.append(row)

    draw()
    ids: list[int] = []
    async with work.worker():
        for row in drawn:
            try:
                ids.append(await put(work, row))
            except asyncpg.CheckViolationError:  # the table's own rule
                continue
        await sound_work_is_done(work)
    assert len(ids) > count // 3
    out = "".join(capsys.readouterr())
    assert "dispatch_round_failed" not in out and "Traceback" not in out
    await work.pool.execute("delete from outbox_events where id = any($1)", ids)
