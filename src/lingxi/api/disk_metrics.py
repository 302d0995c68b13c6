"""How full the disks are that this API process writes to."""

from collections.abc import Mapping
from pathlib import Path
from shutil import disk_usage

from lingxi.observability.metrics import Gauge


def disk_gauges(disks: Mapping[str, Path]) -> list[Gauge]:
    """The free part of each disk, 0 to 1. A folder that is not there yet is left out. Blocks as long as the disk does."""
    samples: dict[tuple[str, ...], float] = {}
    for name, folder in disks.items():
        if folder.exists():
            usage = disk_usage(folder)
            samples[(name,)] = usage.free / usage.total if usage.total else 1.0
    return [
        Gauge(
            "lingxi_disk_free_ratio",
            "Free part of the disk that holds this process's data folder, and its storage where that is a folder.",
            ("disk",),
            samples,
        )
    ]
