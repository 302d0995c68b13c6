"""A rule of the contract: what it says, how it is tried, and what came of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from lingxi.conformance.model import Model
from lingxi.conformance.server import Server

MAX_REASONS = 3


class NotTried(Exception):
    """The rule cannot be tried here, and why. It never counts as passed."""


@dataclass(slots=True)
class Check:
    """Counts what holds and what does not; the first few reasons are kept."""

    passed: int = 0
    failed: int = 0
    reasons: list[str] = field(default_factory=list)

    def __call__(self, holds: bool, otherwise: str) -> bool:
        """Count one observation; `otherwise` says what was wrong if it does not hold."""
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            if len(self.reasons) < MAX_REASONS:
                self.reasons.append(otherwise)
        return holds

    def equal(self, found: Any, expected: Any, what: str) -> bool:
        return self(found == expected, f"{what} is {found!r}, expected {expected!r}")


@dataclass(frozen=True, slots=True)
class Bench:
    """What rules work with."""

    server: Server
    restart_command: str | None = None

    async def same_as_asked(self, check: Check, task_id: str, model: Model, when: str = "") -> bool:
        """Does the client know exactly what the server answers when asked?"""
        differences = model.differences(await self.server.task(task_id), await self.server.items(task_id))
        label = f"{when}: " if when else ""
        return check(not differences, label + "; ".join(differences[:3]))


Try = Callable[[Bench, Check], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`slow`: it waits much and works little, so it is tried beside the others. `alone`: it would disturb them."""

    name: str
    sentence: str
    attempt: Try
    slow: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a rule."""

    passed: int
    failed: int
    tried: bool
    why: str

    @property
    def ok(self) -> bool:
        return self.tried and self.failed == 0 and self.passed > 0
