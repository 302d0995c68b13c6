"""The photos of the benchmark, made from the project's sample photographs: enlarged, with a sensor's grain, and written as
cameras and phones write them. The same pixels each time."""

import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pyvips

SUBJECTS = ("raccoon", "coffee", "cat", "rocket")
GRAIN = 5.0  # standard deviation, of 255
GRAIN_SHEET = 1009  # pixels, a prime: no seam meets the JPEG's blocks
CAMERA = ((4928, 3264), (5472, 3648), (6000, 4000))  # 16, 20 and 24 megapixels
PHONE = ((4032, 3024), (3024, 4032), (4032, 3024))


@dataclass(frozen=True, slots=True)
class PhotoSet:
    """Photos of one kind. `peers_read_it`: whether the npm peer has a decoder for them."""

    name: str
    what: str
    paths: tuple[Path, ...]
    megapixels: float
    peers_read_it: bool = True


def make_sets(folder: Path, *, quick: bool) -> list[PhotoSet]:
    """Write them into `folder`. HEIC is left out where Debian's `heif-enc` is not installed."""
    count = 2 if quick else 6
    makers: list[tuple[str, str, Callable[[Path, int], None], list[tuple[int, int]], bool]] = [
        ("camera", "JPEG of 16 to 24 megapixels", _camera, _sizes(CAMERA, count), True),
        ("phone", "JPEG of 4032 x 3024, some turned by EXIF", _phone, _sizes(PHONE, count), True),
        ("p3", "JPEG in Display P3, phone and camera", _p3, _sizes((PHONE[0], CAMERA[1]), count), True),
        ("png", "PNG of 6 megapixels", _png, _sizes(((3000, 2000),), count // 2), True),
    ]
    if shutil.which("heif-enc") is not None:
        makers.append(("heic", "HEIC of 4032 x 3024", _heic, _sizes((PHONE[0],), count // 2), False))
    sets = []
    for name, what, write, sizes, read in makers:
        paths = tuple(folder / f"{name}-{number}{_SUFFIX.get(name, '.jpg')}" for number in range(len(sizes)))
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(write, paths, range(len(sizes))))
        megapixels = sum(width * height for width, height in sizes) / len(sizes) / 1e6
        sets.append(PhotoSet(name, what, paths, megapixels, read))
    return sets


def phone_photos(folder: Path, *, quick: bool) -> list[bytes]:
    """A few photos as a phone takes them, of 12 megapixels; smaller ones to see that it works."""
    photos = []
    for number in range(2 if quick else 4):
        path = folder / f"phone-{number}.jpg"
        if quick:
            _save(_photo(number, 1200, 900), path)
        else:
            _phone(path, number)
        photos.append(path.read_bytes())
        path.unlink()
    return photos


def small_photo() -> bytes:
    """A photo of one megapixel, without a sensor's grain: some ten kilobytes."""
    name = f"{SUBJECTS[0]}.jpg"
    data = (resources.files("lingxi.imaging") / "sample_photos" / name).read_bytes()
    small = pyvips.Image.jpegload_buffer(data)
    large = small.resize(1200 / small.width, vscale=800 / small.height, kernel="linear")
    jpeg: bytes = large.jpegsave_buffer(Q=75)
    return jpeg


_SUFFIX = {"png": ".png", "heic": ".heic"}


def _sizes(of: tuple[tuple[int, int], ...], count: int) -> list[tuple[int, int]]:
    return [of[number % len(of)] for number in range(count)]


def _photo(number: int, width: int, height: int) -> pyvips.Image:
    name = f"{SUBJECTS[number % len(SUBJECTS)]}.jpg"
    data = (resources.files("lingxi.imaging") / "sample_photos" / name).read_bytes()
    small = pyvips.Image.jpegload_buffer(data)
    large = small.resize(width / small.width, vscale=height / small.height, kernel="linear")
    return (large + _grain(number, width, height)).cast("uchar").copy(interpretation="srgb")


def _grain(number: int, width: int, height: int) -> pyvips.Image:
    """A sheet of noise, laid side by side: nobody sees the seams, and it is quick to make."""
    sheet = pyvips.Image.gaussnoise(GRAIN_SHEET, GRAIN_SHEET, mean=0, sigma=GRAIN, seed=number + 1)
    sheet = sheet.rint().cast("char").copy_memory()
    across, down = -(-width // GRAIN_SHEET), -(-height // GRAIN_SHEET)
    return sheet.replicate(across, down).crop(0, 0, width, height)


def _save(image: pyvips.Image, path: Path, **options: Any) -> None:
    image.jpegsave(str(path), Q=92, **options)


def _camera(path: Path, number: int) -> None:
    _save(_photo(number, *CAMERA[number % len(CAMERA)]), path)


def _phone(path: Path, number: int) -> None:
    """Every third one was taken upright, and lies in the file."""
    width, height = PHONE[number % len(PHONE)]
    image = _photo(number, width, height)
    if height > width:
        image = image.rot270().copy()
        image.set_type(pyvips.GValue.gint_type, "orientation", 6)
    _save(image, path)


def _p3(path: Path, number: int) -> None:
    image = _photo(number, *(PHONE[0], CAMERA[1])[number % 2])
    _save(image.icc_transform("p3", input_profile="srgb"), path)


def _png(path: Path, number: int) -> None:
    _photo(number, 3000, 2000).pngsave(str(path), compression=6)


def _heic(path: Path, number: int) -> None:
    source = path.with_suffix(".source.jpg")
    _save(_photo(number, *PHONE[0]), source)
    subprocess.run(
        ["heif-enc", "-q", "60", "-p", "preset=ultrafast", "-o", str(path), str(source)],
        check=True,
        capture_output=True,
    )
    source.unlink()
