"""What one consumer holds: jobs that it took from Redis, and attempts that it claimed in PostgreSQL.

The consumer's event loop writes; the lease thread reads copies (copying a dict is one step under the interpreter's lock).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingxi.broker.queue import Delivery
from lingxi.domain.decide import Decision
from lingxi.processors.contract import Context
from lingxi.services.claim_items import Claim
from lingxi.services.photo_jobs import PhotoClaim

if TYPE_CHECKING:
    from opentelemetry.trace import Span


@dataclass(slots=True, eq=False)
class Running:
    """An attempt, from its claim until the commit of what became of it."""

    claim: Claim
    delivery: Delivery
    context: Context
    deadline: float  # of time.monotonic()
    started: bool = False
    task: asyncio.Task[None] | None = None
    decision: Decision | None = None
    cancel_at: float | None = None  # when it was asked to stop: cancelled then
    abandon_at: float | None = None  # when it was cancelled: given up on then
    claimed_at: float = field(default_factory=time.monotonic)
    decided_at: float = 0.0  # of time.monotonic(), too
    span: Span | None = None  # of the whole attempt, while traced
    lines: Sequence[str] = ()  # the last that it logged
    replaced: bool = field(default=False)  # its result could not be stored, and was replaced by an error

    @property
    def expired(self) -> bool:
        """Is its deadline past, so that no lease holds the item for it?"""
        return time.monotonic() >= self.deadline


class Ledger:
    """The books of one consumer with `slots` places."""

    def __init__(self, queue: str, slots: int) -> None:
        self.queue = queue
        self.slots = slots
        self.stopping = False
        self.quiet = False  # an operator wants it: nothing new is taken
        self.deliveries: dict[str, Delivery] = {}  # by job id: not yet acknowledged
        self.unclaimed: set[str] = set()  # of these, the job ids of which nothing is known yet
        self.attempts: dict[int, Running] = {}  # by fence: not yet committed
        self.photos: dict[int, PhotoClaim] = {}  # by fence: claims of photo jobs
        self.room = asyncio.Event()
        self.room.set()

    @property
    def free(self) -> int:
        """How many jobs may be taken now."""
        return self.slots - len(self.deliveries) if self.takes else 0

    @property
    def takes(self) -> bool:
        """May anything new be taken at all?"""
        return not (self.stopping or self.quiet)

    def be_quiet(self, quiet: bool) -> None:
        """Take nothing new from now on; or work again."""
        self.quiet = quiet
        if not quiet:
            self.room.set()

    def took(self, deliveries: Iterable[Delivery]) -> None:
        """These jobs are ours."""
        for delivery in deliveries:
            self.deliveries[delivery.job_id] = delivery
            self.unclaimed.add(delivery.job_id)

    def dropped(self, deliveries: Sequence[Delivery]) -> None:
        """These jobs are ours no more."""
        for delivery in deliveries:
            self.deliveries.pop(delivery.job_id, None)
            self.unclaimed.discard(delivery.job_id)
        if (
            len(self.deliveries) <= self.slots // 2
        ):  # not for each single place: takes are cheaper by the batch
            self.room.set()
