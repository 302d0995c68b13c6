"""What the figures were taken on, and what the processes used, from /proc."""

import os
import pathlib
import platform
from collections.abc import Iterable


def describe_machine() -> dict[str, str]:
    """Processor, cores, memory, load and Python of this machine, for the reader of a figure."""
    return {
        "processor": _first_value("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": _memory_gigabytes(),
        "load": f"{os.getloadavg()[0]:.1f} (1 min)",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _first_value(path: str, key: str) -> str:
    for line in pathlib.Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _memory_gigabytes() -> str:
    kilobytes = int(_first_value("/proc/meminfo", "MemTotal").split()[0])
    return f"{kilobytes / 1024**2:.0f} GB"


def descendants(pid: int) -> list[int]:
    """`pid` and all processes below it that are alive now."""
    children: dict[int, list[int]] = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        todo += children.get(current, [])
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system seconds of these processes and all below them, ended children included."""
    return sum(_ticks(pid, 4) for root in pids for pid in descendants(root)) / os.sysconf("SC_CLK_TCK")


def own_cpu_seconds(pids: Iterable[int]) -> float:
    """User and system seconds of these processes and of no other."""
    return sum(_ticks(pid, 2) for pid in pids) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int, fields: int) -> int:
    try:
        values = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return sum(int(value) for value in values[11 : 11 + fields])


def is_decoder(pid: int) -> bool:
    """Is it one of Lingxi's processes that decode pictures?"""
    try:
        return b"lingxi.imaging.child" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def resident_bytes(pid: int) -> int:
    """Memory that the process holds now (proportional, so that shared pages are not counted twice)."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
