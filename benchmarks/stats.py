"""Medians with their spread: a figure without one is not printed."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """The runs of one measurement, in the order in which they were made."""

    runs: tuple[float, ...]

    @classmethod
    def of(cls, runs: Sequence[float]) -> "Spread":
        if not runs:
            raise ValueError("a spread needs at least one run")
        return cls(tuple(runs))

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def low(self) -> float:
        return min(self.runs)

    @property
    def high(self) -> float:
        return max(self.runs)

    def percentile(self, percent: float) -> float:
        """The value that `percent` of the runs do not exceed (nearest rank)."""
        ordered = sorted(self.runs)
        rank = max(1, -(-len(ordered) * percent // 100))
        return ordered[int(rank) - 1]

    def as_json(self, digits: int = 1) -> dict[str, Any]:
        """`{median, min, max, runs}`; `runs` counts them."""
        return {
            "median": round(self.median, digits),
            "min": round(self.low, digits),
            "max": round(self.high, digits),
            "runs": len(self.runs),
        }

    def text(self, digits: int = 0) -> str:
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f}–{self.high:,.{digits}f})"


@dataclass(frozen=True, slots=True)
class Run:
    """One run: items a second from the first submit to the last final item, and CPU microseconds an item.

    `acknowledged_per_second` counts until the broker's lists are empty too (Lingxi only).
    """

    items_per_second: float
    submit_seconds: float
    cpu_microseconds: dict[str, float]
    acknowledged_per_second: float | None = None
