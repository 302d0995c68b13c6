"""Frames of the event stream as bytes. Each is encoded once, however many watch.

A block is a run of whole frames in one piece of bytes, at most about BLOCK_BYTES of them: what one send
carries. Blocks of changes (of items, of photos) know the point of each frame, so that a watcher that has seen the
first few is given the rest without encoding anything anew.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from lingxi.domain.wire import Task, progress_frame, task_to_wire
from lingxi.stream.cursor import ALL, Point

BLOCK_BYTES = 32 * 1024
HEARTBEAT = b": heartbeat\n\n"


def encode(event: str, data: Any, number: int | None = None) -> bytes:
    """One frame. `data` is anything that JSON can say; compact JSON holds no line break, so one `data:` line is
    enough.
    """
    head = f"id: {number}\nevent: {event}\ndata: " if number is not None else f"event: {event}\ndata: "
    return b"%b%b\n\n" % (head.encode("ascii"), orjson.dumps(data))


def retry(milliseconds: int) -> bytes:
    """How long the client waits before it connects again."""
    return b"retry: %d\n\n" % milliseconds


def snapshot(task: Task, *, with_id: bool = True) -> bytes:
    """The whole task. Without an id where items that are older follow (after a `reset`)."""
    return encode("snapshot", task_to_wire(task), task.cursor if with_id else None)


def progress(task: Task) -> bytes:
    """Status and counters."""
    return encode("progress", progress_frame(task))


def end(task: Task) -> bytes:
    """The final task of a round; the stream closes after it."""
    return encode("end", task_to_wire(task), task.cursor)


def reset() -> bytes:
    """The id cannot be honoured. Its own id is 0: a connection that is lost before the items have come asks for
    all of them again.
    """
    return encode("reset", {"reason": "unknown_id"}, 0)


def closing() -> bytes:
    """This server is going away."""
    return encode("closing", {})


def item_progress(payload: Mapping[str, Any]) -> bytes:
    """How far one running item is."""
    return encode("itemProgress", payload)


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item as the stream reads it; `result` is JSON text, passed on as it is."""

    position: int
    number: int
    state: str
    ref: str | None
    attempt: int
    result: str | None
    error: tuple[str, str, bool] | None

    @property
    def point(self) -> Point:
        return (self.number, self.position)


class Piece(NamedTuple):
    """The frame of one change and its point; `photo` is a published photo of which no viewer has been told yet."""

    frame: bytes
    point: Point
    photo: UUID | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Whole frames in one piece of bytes: those of changes, whose points are known, then any others.

    `starts` has one place more than `points`: where the other frames begin. `photos`: those whose first frame it carries.
    """

    body: bytes
    points: Sequence[Point] = ()
    starts: Sequence[int] = (0,)
    photos: Sequence[UUID] = ()

    @property
    def last(self) -> Point:
        """The point reached by sending this block; the least one when it carries no change."""
        return self.points[-1] if self.points else ALL

    def after(self, seen: Point) -> bytes:
        """What a watcher that has seen all up to `seen` still needs of it."""
        if not self.points or seen < self.points[0]:
            return self.body
        return self.body[self.starts[bisect_right(self.points, seen)] :]

    def followed_by(self, frames: bytes) -> "Block":
        """The same block with frames behind it that carry no change."""
        return Block(self.body + frames, self.points, self.starts, self.photos)


def blocks(pieces: Iterable[Piece]) -> list[Block]:
    """Frames of changes, in the order of their points, as blocks of about BLOCK_BYTES."""
    made: list[Block] = []
    run: list[Piece] = []
    starts = [0]
    for piece in pieces:
        run.append(piece)
        starts.append(starts[-1] + len(piece.frame))
        if starts[-1] >= BLOCK_BYTES:
            made.append(_block(run, starts))
            run, starts = [], [0]
    if run:
        made.append(_block(run, starts))
    return made


def _block(run: Sequence[Piece], starts: Sequence[int]) -> Block:
    return Block(
        b"".join([piece.frame for piece in run]),
        [piece.point for piece in run],
        starts,
        [piece.photo for piece in run if piece.photo is not None],
    )


def item_blocks(task_id: UUID, rows: Sequence[ItemRow], *, more_follow: bool) -> list[Block]:
    """Frames of items in the order of their points.

    A frame carries its number as id only when all items of that number are out with it: whoever resumes from an
    id must miss nothing. So of a run of equal numbers only the last has it, and the last of a page on which
    more of the same may follow has none.
    """
    prefix = str(task_id)[:-4]  # an item's id is its task's, with the position in the last 16 bits
    pieces: list[Piece] = []
    for index, row in enumerate(rows):
        last = index + 1 == len(rows)
        shared = rows[index + 1].number == row.number if not last else more_follow and row.number <= 1
        frame = encode("item", _item_data(prefix, row), None if shared else row.number)
        pieces.append(Piece(frame, row.point))
    return blocks(pieces)


def _item_data(prefix: str, row: ItemRow) -> dict[str, Any]:
    """`domain.wire.item_frame`, straight from the row: the result is not decoded only to be encoded again."""
    error = row.error and {"code": row.error[0], "message": row.error[1], "retryable": row.error[2]}
    return {
        "itemId": f"{prefix}{row.position:04x}",
        "index": row.position - 1,
        "ref": row.ref,
        "state": row.state,
        "attempt": row.attempt,
        "error": error,
        "result": None if row.result is None else orjson.Fragment(row.result),
    }
