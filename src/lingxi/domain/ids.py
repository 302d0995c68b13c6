"""Ids of tasks and items.

A task's id is a UUID that sorts by the time of its making (version 7, RFC 9562) and ends in sixteen zero bits. An item's id is
its task's with the item's position (1 to 10,000) in these bits. So an item needs no id of its own in the database, and its id
tells which task it belongs to. 58 random bits in each millisecond keep ids apart; nothing relies on their being secret.
"""

import secrets
import time
from uuid import UUID

_POSITION_BITS = 16
_POSITION_MASK = (1 << _POSITION_BITS) - 1


def new_task_id() -> UUID:
    """A fresh task id."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    value |= 0b10 << 62 | secrets.randbits(62 - _POSITION_BITS) << _POSITION_BITS
    return UUID(int=value)


def item_id(task_id: UUID, position: int) -> UUID:
    """The id of the item at `position` (from 1) of a task."""
    return UUID(int=task_id.int | position)


def split_item_id(value: UUID) -> tuple[UUID, int]:
    """The task id and the position in an item's id. Position 0: it is a task's id."""
    return UUID(int=value.int & ~_POSITION_MASK), value.int & _POSITION_MASK


def parse_uuid(text: str) -> UUID | None:
    """A UUID in its canonical 36-character form, in either case; None for anything else."""
    if len(text) != 36:
        return None
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text.lower() else None
