"""What the processes of a deployment hold at a moment, and whether they hold more and more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

MEGABYTE = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Held:
    """Of one service with its children: resident bytes and open files."""

    memory_bytes: int
    files: int


def held_by(pid: int) -> Held:
    """A process and all below it; those that end meanwhile are left out."""
    memory = files = 0
    for one in (pid, *_below(pid)):
        try:
            memory += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * _PAGE_BYTES
            files += len(os.listdir(f"/proc/{one}/fd"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return Held(memory, files)


def _below(pid: int) -> list[int]:
    try:
        children = [
            int(one)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for one in (task / "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [*children, *(grandchild for child in children for grandchild in _below(child))]


@dataclass(frozen=True, slots=True)
class Growth:
    """A figure over time: its medians in the first and in the last third of what was judged."""

    first: float
    last: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.last <= self.limit

    def as_json(self, unit: float = 1) -> dict[str, Any]:
        return {
            "first": round(self.first / unit, 1),
            "last": round(self.last / unit, 1),
            "limit": round(self.limit / unit, 1),
            "ok": self.ok,
        }


def growth(figures: Sequence[float], *, part: float, more: float) -> Growth:
    """`part` of the first third and `more` on top of it may come; ValueError for fewer than three figures."""
    third = len(figures) // 3
    if not third:
        raise ValueError("too few figures")
    first, last = median(figures[:third]), median(figures[-third:])
    return Growth(first, last, first * (1 + part) + more)


def memory_growth(by_service: Mapping[str, Sequence[Held]]) -> dict[str, Growth]:
    """A tenth, and 8 MB: allocators keep what a busy second has needed."""
    return {
        name: growth([one.memory_bytes for one in held], part=0.1, more=8 * MEGABYTE)
        for name, held in by_service.items()
    }


def files_growth(by_service: Mapping[str, Sequence[Held]]) -> dict[str, Growth]:
    """A few: connections of pools come and go."""
    return {name: growth([one.files for one in held], part=0, more=8) for name, held in by_service.items()}
