"""Sixty photographs to try things with: four real ones, varied by code in size, orientation and format, and some broken
on purpose. The same bytes each time."""

import os
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pyvips

# One row a photograph: subject, long edge in pixels, EXIF orientation, format. Numbered in this order.
_JPEG_SIZES: Final = (
    4032,
    1600,
    2400,
    800,
    1920,
    1200,
    3000,
    640,
    2048,
    1000,
    400,
    1800,
    2560,
    720,
    3600,
    900,
    1400,
)
_OTHERS: Final = (
    ("png", 1024, 1),
    ("webp", 1600, 6),
    ("tiff", 1200, 3),
    ("avif", 1280, 1),
    ("gif", 480, 1),
    ("png", 640, 8),
    ("webp", 1200, 1),
    ("tiff", 800, 6),
    ("avif", 800, 1),
    ("gif", 400, 1),
    ("webp", 2000, 5),
)
_JPEGS: Final = 43
_SUBJECTS: Final = ("raccoon", "coffee", "cat", "rocket")
_SHAPES: Final = (None, 3 / 4, 1.0)  # width to height of what is cut out; None: the whole picture
_NAMES: Final = {  # people name files in their own script
    "raccoon": ("raccoon", "Waschbär", "浣熊"),
    "coffee": ("coffee", "Café d’été", "咖啡"),
    "cat": ("cat", "кошка", "猫"),
    "rocket": ("rocket", "fusée", "صاروخ"),
}
_SUFFIXES: Final = {"jpeg": "jpg", "tiff": "tif"}

_SAVE: Final[dict[str, Callable[[pyvips.Image, str], Any]]] = {
    "jpeg": lambda image, path: image.jpegsave(path, Q=82),
    "png": lambda image, path: image.pngsave(path, compression=1),
    "webp": lambda image, path: image.webpsave(path, Q=80, effort=0),
    "tiff": lambda image, path: image.tiffsave(path, compression="lzw", predictor="horizontal"),
    "avif": lambda image, path: image.heifsave(path, compression="av1", Q=60, effort=0),
    "gif": lambda image, path: image.gifsave(path, effort=1),
}
# How an upright picture lies in a file whose EXIF orientation turns it upright again.
_LAY_DOWN: Final[dict[int, Callable[[pyvips.Image], pyvips.Image]]] = {
    1: lambda image: image,
    2: lambda image: image.fliphor(),
    3: lambda image: image.rot180(),
    4: lambda image: image.flipver(),
    5: lambda image: image.rot90().fliphor(),
    6: lambda image: image.rot270(),
    7: lambda image: image.rot270().fliphor(),
    8: lambda image: image.rot90(),
}


@dataclass(frozen=True, slots=True)
class SamplePhoto:
    """A file that was made. `expected`: "ok", or the code with which `media:verify` must refuse it."""

    path: Path
    name: str
    expected: str


def make_sample_photos(folder: Path) -> list[SamplePhoto]:
    """Write them all into `folder`, which is made when it is not there; answers them in the order of their names.

    The names of the broken ones hold `broken`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bases = [pyvips.Image.new_from_buffer(_sample(subject), "").copy_memory() for subject in _SUBJECTS]
    jpegs = [("jpeg", _JPEG_SIZES[n % len(_JPEG_SIZES)], n % 8 + 1) for n in range(_JPEGS)]
    plan = [*jpegs, *_OTHERS]

    def make(number: int) -> SamplePhoto:
        kind, long_edge, orientation = plan[number]
        which = number % len(bases)
        spelling = _NAMES[_SUBJECTS[which]][number // len(bases) % 3]
        name = f"{number + 1:02d} {spelling}.{_SUFFIXES.get(kind, kind)}"
        _write(_cut_out(bases[which], _SHAPES[number % 3]), folder / name, kind, long_edge, orientation)
        return SamplePhoto(folder / name, name, "ok")

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:  # libvips lets go of Python's lock
        good = list(threads.map(make, range(len(plan))))
    return good + _make_broken(folder, good)


def _sample(subject: str) -> bytes:
    return (resources.files("lingxi.imaging") / "sample_photos" / f"{subject}.jpg").read_bytes()


def _cut_out(base: pyvips.Image, shape: float | None) -> pyvips.Image:
    if shape is None:
        return base
    width = round(base.height * shape)
    return base.crop((base.width - width) // 2, 0, width, base.height)


def _write(base: pyvips.Image, path: Path, kind: str, long_edge: int, orientation: int) -> None:
    image = base.resize(long_edge / max(base.width, base.height), kernel="linear")
    image = _LAY_DOWN[orientation](image)
    if orientation != 1:
        image = image.copy()
        image.set_type(pyvips.GValue.gint_type, "orientation", orientation)
    _SAVE[kind](image, str(path))


def _make_broken(folder: Path, good: list[SamplePhoto]) -> list[SamplePhoto]:
    whole = good[1].path.read_bytes()
    png = next(photo.path for photo in good if photo.path.suffix == ".png").read_bytes()
    middle = len(png) // 2
    broken = (
        ("cut off.jpg", whole[: len(whole) * 6 // 10], "truncated_image"),
        ("a text.jpg", b"This is a text, whatever its name says.\n", "unsupported_type"),
        ("empty.jpg", b"", "empty_file"),
        ("bomb.png", _declaring(60_000, 60_000), "too_many_pixels"),
        ("damaged.png", png[:middle] + b"\xff\x00\xff\x00" + png[middle + 4 :], "corrupt_image"),
        ("drawing.jpg", b'<svg xmlns="http://www.w3.org/2000/svg"/>\n', "unsupported_type"),
    )
    made = []
    for number, (what, data, expected) in enumerate(broken, len(good) + 1):
        name = f"{number:02d} broken, {what}"
        (folder / name).write_bytes(data)
        made.append(SamplePhoto(folder / name, name, expected))
    return made


def _declaring(width: int, height: int) -> bytes:
    """A PNG of some hundred bytes whose header asks for gigabytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1024))) + chunk(b"IEND", b"")
