"""Frames as bytes, and blocks of which a watcher needs only the rest."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from lingxi.domain.ids import new_task_id
from lingxi.domain.states import Counts
from lingxi.domain.wire import Item, ItemProblem, Task, item_frame, task_to_wire
from lingxi.stream import frames
from lingxi.stream.cursor import ALL, After, Fresh, Garbage, parse_last_event_id, settled
from lingxi.stream.frames import Block, ItemRow, item_blocks
from lingxi.stream.log import Entry, FrameLog

NOW = datetime(2026, 12, 1, 20, 0, tzinfo=UTC)


def _row(position: int, number: int, **fields: object) -> ItemRow:
    plain = {"state": "queued", "ref": None, "attempt": 0, "result": None, "error": None}
    return ItemRow(position, number, **(plain | fields))  # type: ignore[arg-type]


def _ids(blocks: list[Block]) -> list[str | None]:
    body = b"".join(block.body for block in blocks).decode()
    return [
        frame.split("\n")[0].removeprefix("id: ") if frame.startswith("id: ") else None
        for frame in body.split("\n\n")[:-1]
    ]


def test_item_frame_is_the_domains_own() -> None:
    task_id = new_task_id()
    row = _row(
        10_000,
        77,
        state="failed",
        ref="größe\n2",
        attempt=3,
        result='{"a": [1, "x\\n"]}',
        error=("drill_failed", "no", True),
    )
    item = Item(
        task_id,
        10_000,
        "größe\n2",
        "failed",
        3,
        {},
        {"a": [1, "x\n"]},
        ItemProblem("drill_failed", "no", True),
        NOW,
        NOW,
        NOW,
        77,
    )
    (block,) = item_blocks(task_id, [row], more_follow=False)
    head, event, data = block.body.decode().removesuffix("\n\n").split("\n")
    assert (head, event) == ("id: 77", "event: item")
    assert json.loads(data.removeprefix("data: ")) == item_frame(item)


def test_task_frames() -> None:
    task = Task(
        new_task_id(),
        new_task_id(),
        "demo:drill",
        "queued",
        1,
        1,
        False,
        Counts(2, queued=2),
        {"a": "\n"},
        NOW,
        None,
        None,
        5,
    )
    assert frames.snapshot(task).startswith(b"id: 5\nevent: snapshot\ndata: {")
    assert frames.snapshot(task, with_id=False).startswith(b"event: snapshot\n")
    assert json.loads(frames.end(task).split(b"data: ")[1]) == task_to_wire(task)
    assert frames.progress(task).startswith(b"event: progress\n")
    for frame in (
        frames.snapshot(task),
        frames.end(task),
        frames.progress(task),
        frames.reset(),
        frames.closing(),
    ):
        assert frame.endswith(b"\n\n") and frame.count(b"\n\n") == 1


def test_equal_numbers_share_one_id_which_comes_last() -> None:
    task_id = new_task_id()
    rows = [_row(1, 1), _row(2, 1), _row(3, 1), _row(4, 2), _row(5, 3)]
    assert _ids(item_blocks(task_id, rows, more_follow=False)) == [None, None, "1", "2", "3"]
    assert _ids(item_blocks(task_id, rows[:2], more_follow=True)) == [None, None]
    assert _ids(item_blocks(task_id, rows[:2], more_follow=False)) == [None, "1"]
    assert _ids(item_blocks(task_id, rows[3:], more_follow=True)) == ["2", "3"]


def test_a_block_gives_what_is_not_yet_seen() -> None:
    (block,) = item_blocks(new_task_id(), [_row(p, p + 1) for p in range(1, 6)], more_follow=False)
    block = block.followed_by(b"event: progress\ndata: {}\n\n")
    assert block.after(ALL) == block.after(settled(1)) == block.body
    assert (
        block.after(settled(4)).startswith(b"id: 5\n") and block.after(settled(4)).count(b"event: item") == 2
    )
    assert block.after(settled(6)) == b"event: progress\ndata: {}\n\n"
    assert block.after(settled(9)) == b"event: progress\ndata: {}\n\n"
    assert block.last == (6, 5)


def test_blocks_are_bounded() -> None:
    rows = [_row(p, p + 1, state="succeeded", result=json.dumps("x" * 5_000)) for p in range(1, 101)]
    blocks = item_blocks(new_task_id(), rows, more_follow=False)
    assert all(len(block.body) < frames.BLOCK_BYTES + 6_000 for block in blocks)
    assert [point for block in blocks for point in block.points] == [(p + 1, p) for p in range(1, 101)]


def test_the_log_forgets_the_oldest_and_says_how_far_it_reaches() -> None:
    log = FrameLog(settled(10), limit_bytes=100)
    blocks = [Block(bytes(40), [(number, 1)], [0, 40]) for number in range(11, 17)]
    for block in blocks:
        log.append([Entry(block)])
    log.trim()
    assert log.size_bytes <= 100 and log.end == 6 and log.start == 4
    assert log.offset_after(settled(13)) is None
    assert log.offset_after((14, 1)) == 4
    assert log.offset_after(settled(15)) == 5
    assert log.offset_after(settled(99)) == 6
    assert log.get(6) is None
    entry = log.get(5)
    assert entry is not None and entry.block is blocks[5]


def test_the_log_keeps_what_was_written_together_until_the_next() -> None:
    log = FrameLog(settled(1), limit_bytes=100)
    log.append([Entry(Block(bytes(90))), Entry(Block(bytes(90)))])
    assert log.start == 0
    log.append([Entry(Block(bytes(1)))])
    assert log.start == 1


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, Fresh()),
        ("", Fresh()),
        ("0", After(0)),
        ("17", After(17)),
        ("00", Garbage()),
        ("1e3", Garbage()),
        ("1\n", Garbage()),
        ("-0", Garbage()),
        ("१", Garbage()),
        ("9" * 18, After(10**18 - 1)),
        ("9" * 19, Garbage()),
    ],
)
def test_last_event_id(given: str | None, meant: object) -> None:
    assert parse_last_event_id(given) == meant
