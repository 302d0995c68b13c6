"""`archive`: files from storage into a ZIP in storage, beside Debian's `zip -0`, in turns; and the memory for 10 GB."""

import asyncio
import hashlib
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.archive_child import peak_megabytes
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.stats import Spread

REQUIRED_RATIO = 0.5
SPARSE_BYTES = 10 * 1000**3
LIMIT_MEGABYTES = 200
_BLOCK = 1 << 20
SETS = {"photos": (100, 2_500_000), "large": (1, 250_000_000), "small": (4_000, 10_000)}
QUICK_SETS = {"photos": (8, 250_000), "large": (1, 20_000_000), "small": (100, 1_000)}
EXCLUDES = [
    "database and network: storage is a folder, as for `zip`",
    "the start of Python: a worker runs already",
]
NOTES = (
    "ours also computes two SHA-256 of every byte, checks one, signs, and fsyncs; `zip -0` computes CRC-32 and does not fsync."
    " Files are in the page cache on both sides"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Files in a folder's `media`: name, size, SHA-256."""

    name: str
    folder: Path
    files: list[tuple[str, int, str]]

    @property
    def megabytes(self) -> float:
        return sum(size for _, size, _ in self.files) / 1e6


@dataclass(slots=True)
class Side:
    """One contender's rounds."""

    speeds: list[float] = field(default_factory=list)  # MB a second
    cpu_seconds: list[float] = field(default_factory=list)
    peak_megabytes: list[float] = field(default_factory=list)


async def run(options: Options) -> Report:
    report = Report("archive", excludes=EXCLUDES)
    if (program := shutil.which("zip")) is None:
        raise RuntimeError("zip is needed as the peer: apt-get install zip")
    rounds = options.runs or (1 if options.quick else 5)
    with tempfile.TemporaryDirectory(prefix="lingxi-bench-") as scratch:
        for name, (count, size) in (QUICK_SETS if options.quick else SETS).items():
            source = await asyncio.to_thread(_make, Path(scratch) / name, name, count, size)
            await _compare(report, source, program, rounds, judged=not options.quick)
            await asyncio.to_thread(shutil.rmtree, source.folder)
        sparse = await asyncio.to_thread(
            _make_sparse, Path(scratch) / "sparse", SPARSE_BYTES // 100 if options.quick else SPARSE_BYTES
        )
        await _memory(report, sparse)
    report.say(NOTES)
    return report


async def _compare(report: Report, source: Source, program: str, rounds: int, *, judged: bool) -> None:
    ours, theirs = Side(), Side()
    for number in range(rounds + 1):  # the first is not counted
        order = (_lingxi, _zip) if number % 2 else (_zip, _lingxi)
        for work in order:
            took = await work(source, program)
            if number:
                side = ours if work is _lingxi else theirs
                side.speeds.append(source.megabytes / took["seconds"])
                side.cpu_seconds.append(took["cpuSeconds"])
                side.peak_megabytes.append(took["peakMegabytes"])
    ratios = Spread.of([mine / other for mine, other in zip(ours.speeds, theirs.speeds, strict=True)])
    report.say(
        f"{source.name} ({len(source.files)} files, {source.megabytes:,.0f} MB): "
        f"lingxi {Spread.of(ours.speeds).text()} MB/s, peak {max(ours.peak_megabytes):.0f} MB; "
        f"zip -0 {Spread.of(theirs.speeds).text()} MB/s, peak {max(theirs.peak_megabytes):.0f} MB"
    )
    report.lingxi[source.name] = _figures(ours)
    peer = {**_figures(theirs), "lingxiIsTimesAsFast": ratios.as_json(2)}
    report.peers.setdefault("zip -0", {})[source.name] = peer
    report.ratios[f"zip -0 {source.name}"] = ratios.median
    if judged:
        report.claim(
            f"{source.name}: at least {REQUIRED_RATIO:g} × zip -0",
            round(ratios.median, 2),
            ratios.median >= REQUIRED_RATIO,
        )


def _figures(side: Side) -> dict[str, Any]:
    return {
        "megabytesPerSecond": Spread.of(side.speeds).as_json(0),
        "cpuSeconds": Spread.of(side.cpu_seconds).as_json(2),
        "peakMegabytes": Spread.of(side.peak_megabytes).as_json(0),
    }


async def _memory(report: Report, source: Source) -> None:
    took = await _archive(source, keep=False)
    report.lingxi["sparse"] = {
        "gigabytes": round(source.megabytes / 1e3, 2),
        "seconds": round(took["seconds"], 1),
        "peakMegabytes": round(took["peakMegabytes"], 1),
    }
    report.say(
        f"one sparse file of {source.megabytes / 1e3:.1f} GB, to nowhere: {took['seconds']:.0f} s,"
        f" peak {took['peakMegabytes']:.0f} MB"
    )
    report.claim(
        f"{source.megabytes / 1e3:g} GB in under {LIMIT_MEGABYTES} MB (peak resident memory of the process)",
        round(took["peakMegabytes"]),
        took["peakMegabytes"] < LIMIT_MEGABYTES,
    )


# ── the two sides ────────────────────────────────────────────────────────────────────────────────────────


async def _lingxi(source: Source, _: str) -> dict[str, Any]:
    took = await _archive(source, keep=True)
    made = source.folder / "objects" / took["key"][:2] / took["key"]
    await asyncio.to_thread(_look, made, source)
    return took


async def _archive(source: Source, *, keep: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.archive_child"]
    given = json.dumps({"folder": str(source.folder), "files": source.files, "keep": keep}).encode()
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _err = await process.communicate(given)
    if process.returncode:
        raise RuntimeError("the archive could not be made")
    took: dict[str, Any] = json.loads(out)
    return took


async def _zip(source: Source, program: str) -> dict[str, Any]:
    target = source.folder / "peer.zip"
    took = await asyncio.to_thread(
        _run_zip, [program, "-0", "-q", "-r", str(target), "."], source.folder / "media"
    )
    await asyncio.to_thread(_look, target, source)
    return took


def _run_zip(command: list[str], folder: Path) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun, peak = time.monotonic(), 0.0
    process = subprocess.Popen(command, cwd=folder)
    while process.poll() is None:
        peak = max(peak, peak_megabytes(process.pid))
        time.sleep(0.002)
    seconds = time.monotonic() - begun
    if process.returncode:
        raise RuntimeError("zip failed")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpuSeconds": cpu_seconds, "peakMegabytes": peak}


def _look(path: Path, source: Source) -> None:
    """Both hold the same files; then it is removed."""
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    path.unlink()
    if any(sizes.get(name) != size for name, size, _ in source.files):
        raise RuntimeError(f"{path.name} does not hold what it should")


# ── what goes in ─────────────────────────────────────────────────────────────────────────────────────────


def _make(folder: Path, name: str, count: int, size: int) -> Source:
    chance = random.Random(name)
    (folder / "media").mkdir(parents=True)
    files = []
    for number in range(count):
        data = b"".join(chance.randbytes(min(_BLOCK, size - at)) for at in range(0, size, _BLOCK))
        (folder / "media" / f"{number:06}.jpg").write_bytes(data)
        files.append((f"{number:06}.jpg", size, hashlib.sha256(data).hexdigest()))
    return Source(name, folder, files)


def _make_sparse(folder: Path, size: int) -> Source:
    """A hole: it takes no disk, and the same reading and hashing as any file. What is made of it is hashed and dropped."""
    (folder / "media").mkdir(parents=True)
    path = folder / "media" / "hole.bin"
    with path.open("wb") as file:
        file.truncate(size)
    with path.open("rb") as file:
        return Source("sparse", folder, [("hole.bin", size, hashlib.file_digest(file, "sha256").hexdigest())])
