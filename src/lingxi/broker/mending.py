"""Puts a queue right that another client broke.

BullMQ's scripts trust what they find: a job whose key is no hash, whose counters are no numbers or whose parent is no JSON makes
each script fail that meets it, halfway, since Redis takes nothing back; a job that is named like one of the queue's own keys
makes a hash of that key. One such job would stop the taking, the finishing, or the recovery of stalled jobs of everybody else.

So what is broken is removed, and a job that a broken script left standing nowhere gives its id free. Nothing is lost with either:
a job is a doorbell, and the sweep rings again for what waits without one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lingxi.broker.job import RESERVED_IDS
from lingxi.broker.replies import is_error, raise_if_error, text_of
from lingxi.broker.resp import command

KINDS = {
    b"list": ("wait", "active", "paused"),
    b"zset": ("prioritized", "delayed", "completed", "failed", "marker", "waiting-children", "repeat"),
    b"set": ("stalled",),
    b"stream": ("events",),
    b"string": ("id", "pc", "limiter", "stalled-check"),
    b"hash": ("meta",),
}
_NUMBERS = (b"id", b"pc", b"limiter")
_META_NUMBERS = (b"concurrency", b"max", b"duration", b"opts.maxLenEvents")
_COUNTERS = (b"ats", b"stc", b"atm")
_MOST_LOOKED_AT = 5_000
_LISTS = (b"wait", b"paused", b"active")
_SETS = (b"prioritized", b"delayed")

Run = Callable[[Sequence[bytes]], Awaitable[list[Any]]]


@dataclass(frozen=True, slots=True)
class Mended:
    """Names of the queue's own keys that were something else, and ids of jobs that no script can bear."""

    keys: tuple[str, ...]
    jobs: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.keys or self.jobs)

    def told(self) -> dict[str, Any]:
        """For the log: at most 20 of the jobs, each cut to 100 characters."""
        some = [job_id[:100] for job_id in self.jobs[:20]]
        return {"keys": self.keys, "jobs": some, "removed": len(self.jobs)}


async def mend(run: Run, prefix: bytes, *suspects: bytes) -> Mended:
    """Look at the queue's own keys, at its active jobs and at `suspects`, and remove what cannot be borne.

    `suspects` are jobs whose calls failed: where no cause is found they are removed too, or their calls would fail for ever.
    `run` sends commands and answers their replies, errors among them. Raises BrokerError.
    """
    keys = await _mend_keys(run, prefix)
    active, stalled = await _all(run, [
        command(b"LRANGE", prefix + b"active", b"0", b"%d" % _MOST_LOOKED_AT),
        command(b"SMEMBERS", prefix + b"stalled"),
    ])  # fmt: skip
    ids = list(dict.fromkeys([*suspects, *active, *stalled]))
    broken = [job_id for job_id, bad in zip(ids, await _broken(run, prefix, ids), strict=True) if bad]
    gone = broken if broken or keys else list(suspects)
    await _remove(run, prefix, gone)
    return Mended(tuple(keys), tuple(map(text_of, gone)))


async def ringing(run: Run, prefix: bytes, job_ids: Sequence[bytes]) -> list[bool]:
    """Which of these jobs a worker has, or will get. What is left of the others is removed: an id that is kept seems taken.

    A sound job that waits is among the prioritized ones, so two short commands for each are enough as a rule.
    """
    replies = await _all(run, [
        call
        for job_id in job_ids
        for call in (command(b"TYPE", prefix + job_id), command(b"ZSCORE", prefix + b"prioritized", job_id))
    ])  # fmt: skip
    there = dict(zip(job_ids, zip(replies[::2], replies[1::2], strict=True), strict=True))
    doubtful = [job_id for job_id, (kind, score) in there.items() if kind == b"hash" and score is None]
    nowhere = set(doubtful) - await _held(run, prefix, doubtful) if doubtful else set()
    await _forget(run, prefix, list(nowhere))
    return [there[job_id][0] == b"hash" and job_id not in nowhere for job_id in job_ids]


async def forget_half_added(run: Run, prefix: bytes, job_id: bytes) -> None:
    """A job that could not be added may have got its fields and no place: as long as they are there, its id seems taken."""
    await ringing(run, prefix, [job_id])


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────
async def _mend_keys(run: Run, prefix: bytes) -> list[str]:
    keys = [(name, kind) for kind, names in KINDS.items() for name in names]
    found = await _all(run, [command(b"TYPE", prefix + name.encode()) for name, _ in keys])
    wrong = [name for (name, kind), is_now in zip(keys, found, strict=True) if is_now not in (kind, b"none")]
    await _all(run, [command(b"DEL", prefix + name.encode()) for name in wrong])
    *numbers, meta = await _all(run, [
        *(command(b"GET", prefix + name) for name in _NUMBERS),
        command(b"HMGET", prefix + b"meta", *_META_NUMBERS),
    ])  # fmt: skip
    no_numbers = [
        name for name, value in zip(_NUMBERS, numbers, strict=True) if value and not _is_count(value)
    ]
    no_limits = [
        name for name, value in zip(_META_NUMBERS, meta, strict=True) if value and not _is_count(value)
    ]
    calls = [command(b"DEL", prefix + name) for name in no_numbers]
    if no_limits:
        calls.append(command(b"HDEL", prefix + b"meta", *no_limits))
    await _all(run, calls)
    return [*wrong, *map(text_of, no_numbers), *(f"meta {text_of(name)}" for name in no_limits)]


async def _broken(run: Run, prefix: bytes, ids: Sequence[bytes]) -> list[bool]:
    kinds = await _all(run, [command(b"TYPE", prefix + job_id) for job_id in ids])
    fields = await run(
        [command(b"HMGET", prefix + job_id, *_COUNTERS, b"parentKey", b"parent") for job_id in ids]
    )
    return [
        kind not in (b"hash", b"none") or text_of(job_id) in RESERVED_IDS or _cannot_be_borne(values)
        for job_id, kind, values in zip(ids, kinds, fields, strict=True)
    ]


def _cannot_be_borne(values: Any) -> bool:
    if is_error(values):  # it became something else between two looks
        return True
    *counters, parent_key, parent = values
    if any(counter is not None and not _is_count(counter) for counter in counters):
        return True
    return parent_key is not None and not _is_object(parent)


def _is_count(text: bytes) -> bool:
    return text.removeprefix(b"-").isdigit() and len(text) <= 15


def _is_object(text: bytes | None) -> bool:
    try:
        return isinstance(orjson.loads(text or b""), dict)
    except orjson.JSONDecodeError:
        return False


async def _held(run: Run, prefix: bytes, job_ids: Sequence[bytes]) -> set[bytes]:
    """Those of `job_ids` that stand in a list of the queue, or are locked by a worker. Longer lists are not searched: all do."""
    looks = [command(b"LRANGE", prefix + name, b"0", b"%d" % _MOST_LOOKED_AT) for name in _LISTS]
    for job_id in job_ids:
        looks += [command(b"ZSCORE", prefix + name, job_id) for name in _SETS]
        looks.append(command(b"EXISTS", prefix + job_id + b":lock"))
    # In one moment: a job that moves from list to list is seen in one of them.
    *_, replies = await _all(run, [command(b"MULTI"), *looks, command(b"EXEC")])
    for reply in replies:
        raise_if_error(reply)
    lists, marks = replies[: len(_LISTS)], replies[len(_LISTS) :]
    if any(len(listed) > _MOST_LOOKED_AT for listed in lists):
        return set(job_ids)
    listed = {job_id for some in lists for job_id in some}
    each = len(_SETS) + 1
    return {
        job_id
        for number, job_id in enumerate(job_ids)
        if job_id in listed
        or any(mark not in (None, 0) for mark in marks[number * each : (number + 1) * each])
    }


# ── removing ─────────────────────────────────────────────────────────────────────────────────────────────────
async def _remove(run: Run, prefix: bytes, job_ids: Sequence[bytes]) -> None:
    """No list of active jobs has them any more, and their fields are gone; a key that is no job's is left alone."""
    kinds = await _all(run, [command(b"TYPE", prefix + job_id) for job_id in job_ids])
    calls = []
    for job_id, kind in zip(job_ids, kinds, strict=True):
        calls += [
            command(b"LREM", prefix + b"active", b"0", job_id),
            command(b"SREM", prefix + b"stalled", job_id),
        ]
        if kind == b"hash" and text_of(job_id) not in RESERVED_IDS:
            calls.append(command(b"DEL", prefix + job_id))
    await _all(run, calls)


async def _forget(run: Run, prefix: bytes, job_ids: Sequence[bytes]) -> None:
    calls = []
    for job_id in job_ids:
        calls += [command(b"ZREM", prefix + name, job_id) for name in (b"failed", b"completed")]
        calls.append(command(b"DEL", prefix + job_id))
    await _all(run, calls)


async def _all(run: Run, calls: Sequence[bytes]) -> list[Any]:
    """The replies, none of which may be an error. Raises BrokerError."""
    replies = await run(calls)
    for reply in replies:
        raise_if_error(reply)
    return replies
