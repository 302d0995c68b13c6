"""What goes into a queue and what comes out of it, and which ids a job may have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from lingxi import names

MAX_DATA_BYTES = 2048

# Node's BullMQ refuses ':' and whole numbers; the other names are BullMQ's own keys beside the jobs.
JOB_ID = re.compile(r"(?!\d+\Z)[A-Za-z0-9_-]{1,200}\Z")
RESERVED_IDS = frozenset(
    "wait waiting paused active prioritized delayed completed failed stalled stalled-check waiting-children "  # noqa: SIM905
    "limiter meta events repeat id pc marker de dn metrics".split()
)
REJECTIONS = {
    -1: "the job is gone",
    -2: "its lock is gone",
    -3: "it is not active",
    -4: "it has pending children",
    -5: "its parent is gone",
    -6: "somebody else holds its lock",
    -7: "it belongs to another parent",
}


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What jobs of one kind have in common: their name, and BullMQ's own attempts with exponential backoff.

    `first`: it is the next that a worker takes (only with priority 0).
    """

    name: str = names.JOB_NAME
    attempts: int = 1
    backoff_ms: int = 0  # before the second attempt; doubles for each later one
    first: bool = False


ITEM_OPTIONS = JobOptions()
PHOTO_OPTIONS = JobOptions(
    names.PHOTO_JOB_NAME, names.PHOTO_ATTEMPTS, round(names.PHOTO_BACKOFF_SECONDS * 1000)
)
CANARY_OPTIONS = JobOptions(names.CANARY_JOB_NAME, first=True)


@dataclass(frozen=True, slots=True)
class Job:
    """What to add. `id`: letters, digits, '-' and '_', at most 200, not a whole number; `data`: JSON, ≤ 2,048 bytes.

    `priority` is BullMQ's, from 0 (first) to 2²¹ − 1; None: the one that all are added with.
    """

    id: str
    data: bytes
    options: JobOptions = ITEM_OPTIONS
    priority: int | None = None


def photo_job(photo_id: UUID, album_id: UUID, traceparent: str | None = None) -> Job:
    """The job of a photo's first publication. Its id is always the same, so a photo has one such job at most."""
    trace = "" if traceparent is None else f',"traceparent":"{traceparent}"'
    data = f'{{"v":{names.PAYLOAD_VERSION},"photoId":"{photo_id}","albumId":"{album_id}"{trace}}}'
    return Job(f"process-{photo_id}", data.encode(), PHOTO_OPTIONS)


def canary_job(number: int) -> Job:
    """A canary: it overtakes everything, since it asks whether workers take jobs, and not how many wait."""
    data = f'{{"v":{names.PAYLOAD_VERSION},"canary":{number}}}'
    return Job(f"{names.CANARY_ID_PREFIX}{number}", data.encode(), CANARY_OPTIONS, priority=0)


def is_canary(job_id: str) -> bool:
    """Does a job of this id ask whether workers work?"""
    return job_id.startswith(names.CANARY_ID_PREFIX)


@dataclass(slots=True)
class Delivery:
    """A job that is active and ours until its lock runs out. `data` is empty if the job lost its fields.

    `attempts_made` counts the attempts before this one.
    """

    job_id: str
    data: bytes
    timestamp_ms: int
    token: str
    name: str = ""
    attempts_made: int = 0


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """`waiting` is BullMQ's wait + prioritized + paused."""

    waiting: int
    active: int
    delayed: int
    completed: int
    failed: int


def valid_job_id(job_id: str) -> bool:
    """Can BullMQ, in any language, bear a job of this id beside its own keys?"""
    return JOB_ID.match(job_id) is not None and job_id not in RESERVED_IDS
