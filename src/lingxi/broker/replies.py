"""What the server answered, turned into what the queue speaks of; whatever another client wrote may stand in it."""

from __future__ import annotations

import time
from typing import Any

import hiredis

from lingxi.broker.errors import BrokerError, BrokerUnavailable, means_unavailable
from lingxi.broker.job import Delivery

_MOST_DIGITS = 15  # of a number that is a time or a count; a longer one is nonsense


def delivery_of(job_id: bytes, fields: list[bytes], token: str) -> Delivery:
    """A job that became ours. `fields` are pairs, in any order; a value may spell like a field's name."""
    job = dict(zip(fields[::2], fields[1::2], strict=True))
    return Delivery(
        text_of(job_id),
        job.get(b"data", b""),
        _number(job.get(b"timestamp", b"")),
        token,
        job.get(b"name", b"").decode(errors="replace"),
        _number(job.get(b"atm", b"")),
    )


def _number(digits: bytes) -> int:
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else 0


def delay_of(reply: Any) -> int:
    """When the next delayed job is due, in milliseconds; 0 for none, and for a time that no clock will show."""
    due_ms = int(reply or 0)
    return due_ms if 0 < due_ms < 10**_MOST_DIGITS else 0


def priority_of(scored: list[Any]) -> int | None:
    """The priority of the first of a sorted set with scores; None when it is empty, or has a score that is none of ours."""
    if not scored:
        return None
    score = float(scored[1])
    return int(score) >> 32 if 0 <= score < 1 << 53 else None


def text_of(job_id: bytes) -> str:
    return job_id.decode(errors="surrogateescape")  # a foreign client may name its jobs as it likes


def bytes_of(job_id: str) -> bytes:
    return job_id.encode(errors="surrogateescape")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def is_error(reply: Any, prefix: str = "") -> bool:
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith(prefix)


def raise_if_unavailable(reply: Any) -> None:
    if isinstance(reply, hiredis.ReplyError) and means_unavailable(str(reply)):
        raise BrokerUnavailable(str(reply))


def raise_if_error(reply: Any) -> None:
    raise_if_unavailable(reply)
    if isinstance(reply, hiredis.ReplyError):
        raise BrokerError(str(reply))


def whole(reply: Any) -> int:
    raise_if_error(reply)
    return int(reply)


def listed(reply: Any) -> list[Any]:
    raise_if_error(reply)
    return list(reply)
