"""Which processes reach which failpoint: the table that `--every-point` goes through."""

from __future__ import annotations

from lingxi.names import FAILPOINTS

_BY_PART: dict[str, tuple[str, ...]] = {
    "api": ("api",),
    "stream": ("api",),
    "tus": ("api",),
    "outbox": ("api", "dispatcher"),
    "storage": ("api", "worker"),
    "worker": ("worker",),
    "outputs": ("worker",),
    "photo": ("worker",),
    "sweep": ("worker",),
    "photo_sweep": ("worker",),
    "holds": ("worker",),
    "collector": ("worker",),
    "webhook": ("worker",),
}
"""The dispatcher runs by itself or inside the API; sweeps and the collector run beside the work in each worker process."""


def roles_of(point: str) -> tuple[str, ...]:
    """KeyError for a failpoint of a part that is not in the table: it would go untried."""
    return _BY_PART[point.partition(".")[0]]


def every_point(only: str | None = None) -> list[tuple[str, str]]:
    """(role, point) in the order of the list of failpoints; `only`: a point, or the beginning of several."""
    return [
        (role, point)
        for point in FAILPOINTS
        if not only or point.startswith(only)
        for role in roles_of(point)
    ]
