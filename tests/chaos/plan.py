"""What a seed means: which faults, when, for how long, and the work meanwhile. The same seed is the same plan, always."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass

from tests.chaos.load import Step, mixed

FIRST_FAULT_SECONDS = 1.0
_EACH_SECONDS = 4.0  # about so much time belongs to one fault
_FEWEST = 3

DURATIONS: dict[str, tuple[float, float]] = {
    "worker.kill": (0.0, 0.0),
    "worker.freeze": (5.5, 8.0),  # past its lease of four seconds
    "worker.kill_with_parent": (0.0, 1.5),
    "worker.deploy": (0.0, 0.0),
    "api.kill": (0.0, 1.0),
    "api.freeze": (1.0, 4.0),
    "api.deploy": (0.0, 0.0),
    "dispatcher.kill": (0.0, 2.0),
    "dispatcher.freeze": (2.0, 7.0),  # past its lock of five seconds
    "redis.stop": (0.5, 3.0),
    "redis.kill": (0.0, 2.0),
    "redis.freeze": (1.0, 6.0),
    "redis.wipe": (0.0, 0.0),
    "redis.cut": (0.0, 0.0),
    "postgres.restart": (0.0, 1.5),
    "postgres.kill": (0.0, 1.0),
    "postgres.terminate": (0.0, 0.0),
    "postgres.freeze": (1.0, 4.0),
    "network.redis_refused": (0.5, 3.0),
    "network.redis_stalled": (1.0, 5.0),
    "network.postgres_refused": (0.5, 3.0),
    "network.postgres_stalled": (1.0, 4.0),
    "network.postgres_cut": (0.0, 0.0),
    "network.lost_commit": (0.5, 1.5),
    "storage.refused": (0.5, 3.0),
}
"""Every fault, and the shortest and the longest time that it lasts."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`at`: seconds after the start, or later when another one still lasts. `choice`: which one of several."""

    at: float
    name: str
    seconds: float
    choice: int

    def line(self) -> str:
        return f"{self.at:6.2f} s  {self.name:<26} for {self.seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """A seed's faults, one after another, and its work."""

    seed: int
    seconds: float
    faults: tuple[Fault, ...]
    steps: tuple[Step, ...]

    @property
    def names(self) -> dict[str, int]:
        """How often each fault is in it."""
        return dict(sorted(Counter(fault.name for fault in self.faults).items()))

    @property
    def digest(self) -> str:
        """The same for the same plan."""
        return hashlib.sha256(repr((self.faults, self.steps)).encode()).hexdigest()[:12]


def make_plan(seed: int, seconds: float, only: tuple[str, ...] = ()) -> Plan:
    """`only`: faults to choose from, for looking into one. Over the seeds every fault gets its turn."""
    dice = random.Random(f"faults {seed} {seconds:g}")
    known = [name for name in DURATIONS if not only or name.startswith(only)]
    chosen: list[str] = []
    for _ in range(max(_FEWEST, round(seconds / _EACH_SECONDS))):
        rest = [name for name in known if name not in chosen] or known
        chosen.append(dice.choice(rest))
    span = max(seconds - FIRST_FAULT_SECONDS, 0.0) / len(chosen)
    faults = tuple(
        Fault(
            round(FIRST_FAULT_SECONDS + span * (place + dice.uniform(0.0, 0.5)), 3),
            name,
            round(dice.uniform(*DURATIONS[name]), 3),
            dice.randrange(1 << 16),
        )
        for place, name in enumerate(chosen)
    )
    return Plan(seed, seconds, faults, tuple(mixed(random.Random(f"work {seed} {seconds:g}"), seconds)))
