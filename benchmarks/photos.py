"""`photos`: two variants of each photo, beside sharp from npm and the floor, in interleaved rounds on the same two cores; then
the whole way of a photo, with database and storage on both sides."""

import json
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyvips

from benchmarks import photo_whole
from benchmarks.machine import cpu_seconds
from benchmarks.node_env import sharp_folder
from benchmarks.options import Options
from benchmarks.photo_sets import PhotoSet, make_sets
from benchmarks.processes import Child, child
from benchmarks.report import Report
from benchmarks.stats import Spread

LANES = 2  # photos at once on every side: one a core
CHILD_ENV = {  # for all sides what our decoders have
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "VIPS_CONCURRENCY": "1",
}
REQUIRED_RATIOS = {"sharp": 1.6, "floor": 0.6}
JUDGED_SETS = ("camera", "phone", "p3")  # the others are aims: their decoders cannot shrink
MAX_HASH_DISTANCE = 6  # of 64 bits
BYTES_RANGE = (0.8, 1.25)  # of ours to sharp's, for the same size and quality
EXCLUDES = [
    "start-up and imports of all processes, and the making of the photos (done before the clock starts)",
    "the floor: no resize, colours, files or processes; the least that this decoder and encoder can do",
    "storage, database and network, but for the lines that begin with `whole`",
    *photo_whole.EXCLUDES,
]


@dataclass(slots=True)
class Side:
    """One contender, and what it took for a set in each round."""

    name: str
    process: Child
    rates: list[float] = field(default_factory=list)  # photos a second
    cpu_milliseconds: list[float] = field(default_factory=list)  # a photo
    out: Path | None = None  # of the last round

    def forget(self) -> None:
        self.rates, self.cpu_milliseconds, self.out = [], [], None


async def run(options: Options) -> Report:
    report = Report("photos", excludes=EXCLUDES)
    rounds = options.runs or (1 if options.quick else 7)
    with tempfile.TemporaryDirectory(prefix="lingxi-bench-") as scratch:
        folder = Path(scratch)
        report.say("making the photos …")
        sets = make_sets(folder, quick=options.quick)
        async with AsyncExitStack() as stack:
            sides = [Side(name, process) for name, process in (await _start(stack, folder)).items()]
            for photos in sets:
                await _measure(report, photos, sides, rounds, folder)
                _fill(report, photos, sides, judged=not options.quick)
        await photo_whole.measure(
            report,
            sets,
            photos=4 if options.quick else 48,  # so many that filling and emptying the pipeline weighs little
            rounds=options.runs or (1 if options.quick else 4),
            judged=None if options.quick else JUDGED_SETS,
            folder=folder,
        )
    return report


async def _start(stack: AsyncExitStack, folder: Path) -> dict[str, Child]:
    sharp = sharp_folder()
    ours = [sys.executable, "-m", "benchmarks.photo_contender"]
    commands = {
        "lingxi": [*ours, "lingxi", str(LANES)],
        "sharp": ["node", str(sharp / "peer.mjs"), "two", str(LANES)],
        "sharp-chained": ["node", str(sharp / "peer.mjs"), "chained", str(LANES)],
        "floor": [*ours, "floor", str(LANES)],
    }
    environment = {**CHILD_ENV, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    started = {
        name: await stack.enter_async_context(child(command, env=environment, log=folder / f"{name}.log"))
        for name, command in commands.items()
    }
    for process in started.values():
        await process.wait_ready()
    return started


async def _measure(report: Report, photos: PhotoSet, sides: list[Side], rounds: int, folder: Path) -> None:
    """A round that nobody counts, then `rounds` of them; each begins with another side."""
    for side in sides:
        side.forget()
    boxes: list[int] = []
    for number in range(rounds + 1):
        for side in sides[number % len(sides) :] + sides[: number % len(sides)] if number else sides:
            if side.name.startswith("sharp") and not photos.peers_read_it:
                continue
            side.out = Path(tempfile.mkdtemp(dir=folder))
            asked = {"photos": [str(path) for path in photos.paths], "out": str(side.out), "boxes": boxes}
            before = cpu_seconds([side.process.pid])
            side.process.say(json.dumps(asked))
            answer: dict[str, Any] = json.loads(await side.process.line(600))
            spent = answer.get("cpuSeconds", cpu_seconds([side.process.pid]) - before)
            if side.name == "lingxi":
                boxes = [max(size) for size in answer["browse"]]  # so that sharp makes the same sizes
            if number:
                side.rates.append(len(photos.paths) / answer["seconds"])
                side.cpu_milliseconds.append(spent * 1000 / len(photos.paths))
    report.say(
        f"{photos.name} ({photos.what}): "
        + ", ".join(f"{side.name} {Spread.of(side.rates).text(1)}" for side in sides if side.rates)
        + " photos/s"
    )


def _fill(report: Report, photos: PhotoSet, sides: list[Side], *, judged: bool) -> None:
    ours = sides[0]
    report.lingxi[photos.name] = {
        **_figures(ours),
        "what": photos.what,
        "megapixels": round(photos.megapixels, 1),
        "kilobytes": _kilobytes(ours.out, photos),
    }
    for side in sides[1:]:
        if not side.rates:
            continue
        ratios = Spread.of([mine / theirs for mine, theirs in zip(ours.rates, side.rates, strict=True)])
        figures = {**_figures(side), "lingxiIsTimesAsFast": ratios.as_json(2)}
        report.ratios[f"{side.name} {photos.name}"] = ratios.median
        wanted = REQUIRED_RATIOS.get(side.name)
        if judged and wanted is not None:
            report.claim(
                f"{photos.name}: at least {wanted:g} × {side.name}",
                round(ratios.median, 2),
                ratios.median >= wanted,
                required=photos.name in JUDGED_SETS,
            )
        if side.name == "sharp":
            figures["kilobytes"] = _kilobytes(side.out, photos)
            figures["compared"] = _compare(report, photos, ours, side)
        report.peers.setdefault(side.name, {})[photos.name] = figures


def _figures(side: Side) -> dict[str, Any]:
    return {
        "photosPerSecond": Spread.of(side.rates).as_json(1),
        "cpuMillisecondsPerPhoto": Spread.of(side.cpu_milliseconds).as_json(0),
    }


def _variants(out: Path | None, photos: PhotoSet) -> list[dict[str, Path]]:
    assert out is not None
    return [{kind: out / path.stem / f"{kind}.jpg" for kind in ("browse", "thumb")} for path in photos.paths]


def _kilobytes(out: Path | None, photos: PhotoSet) -> dict[str, float]:
    """Of a variant, on average."""
    made = _variants(out, photos)
    return {
        kind: round(sum(files[kind].stat().st_size for files in made) / len(made) / 1000, 1)
        for kind in ("browse", "thumb")
    }


def _compare(report: Report, photos: PhotoSet, ours: Side, theirs: Side) -> dict[str, Any]:
    """Same sizes, same pictures, about the same bytes: nobody is quicker by doing less."""
    distances, shares, sizes_equal = [], [], True
    for mine, other in zip(_variants(ours.out, photos), _variants(theirs.out, photos), strict=True):
        for kind in ("browse", "thumb"):
            a, b = (pyvips.Image.jpegload(str(files[kind])) for files in (mine, other))
            sizes_equal &= (a.width, a.height) == (b.width, b.height)
            distances.append((_difference_hash(a) ^ _difference_hash(b)).bit_count())
            shares.append(mine[kind].stat().st_size / other[kind].stat().st_size)
    same = sizes_equal and max(distances) <= MAX_HASH_DISTANCE
    low, high = BYTES_RANGE
    report.claim(
        f"{photos.name}: sizes equal, difference hashes within {MAX_HASH_DISTANCE}, bytes within {low:g}–{high:g}",
        f"distance {max(distances)}, bytes {min(shares):.2f}–{max(shares):.2f}",
        same and low <= min(shares) and max(shares) <= high,
    )
    return {
        "maxHashDistance": max(distances),
        "bytesToSharps": [round(min(shares), 2), round(max(shares), 2)],
    }


def _difference_hash(image: pyvips.Image) -> int:
    """64 bits: is a cell of 9 x 8 brighter than its right neighbour?"""
    gray = image.colourspace("b-w")
    small = gray.shrink(image.width / 9, image.height / 8).cast("short").crop(0, 0, 9, 8)
    pixels = small.write_to_memory()
    values = memoryview(bytes(pixels)).cast("h")
    bits = 0
    for y in range(8):
        for x in range(8):
            bits = bits << 1 | (values[y * 9 + x] > values[y * 9 + x + 1])
    return bits
