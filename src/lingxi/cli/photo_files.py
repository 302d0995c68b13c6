"""Which files of a folder are photos to publish, and when a file that a camera is still writing is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PHOTOS = ".jpg .jpeg .jpe .jfif .mpo .png .apng .webp .avif .heic .heif .hif .tif .tiff .gif"
_RAWS = ".3fr .arw .cr2 .cr3 .crw .dng .erf .iiq .kdc .mef .mrw .nef .nrw .orf .pef .raf .raw .rw2 .srw .x3f"
# Pictures that are not accepted: they are sent all the same, so that the server says of each what it is and what to do.
_PICTURES = (
    ".bmp .emf .eps .exr .hdr .ico .j2k .jp2 .jpx .jxl .jxr .pgm .ppm .psb .psd .svg .tga .wdp .wmf .xcf"
)
PHOTO_SUFFIXES = frozenset(f"{_PHOTOS} {_PICTURES}".split(" "))
RAW_SUFFIXES = frozenset(_RAWS.split(" "))
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Found:
    """The photos of a folder by name, RAW files that lie beside a photo, RAW files that lie alone, and what else is there."""

    photos: list[Path]
    beside_a_photo: list[Path]
    raw_only: list[Path]
    others: list[Path]


def find_photos(folder: Path) -> Found:
    """Of the folder and those in it; hidden ones are left out, and links to folders are not followed. OSError."""
    files = sorted(_files(folder), key=lambda path: path.as_posix())
    photos = [path for path in files if path.suffix.lower() in PHOTO_SUFFIXES]
    shown = {path.with_suffix("") for path in photos}
    raw = [path for path in files if path.suffix.lower() in RAW_SUFFIXES]
    beside = [path for path in raw if path.with_suffix("") in shown]
    alone = [path for path in raw if path.with_suffix("") not in shown]
    taken = {*photos, *raw}
    return Found(photos, beside, alone, [path for path in files if path not in taken])


def _files(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif entry.is_file():
                yield Path(entry.path)


class Settling:
    """Tells files that have stopped growing: of one size and one time of change for `settle_seconds`, and not empty.

    Each is told once; again when it has changed since.
    """

    def __init__(self, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._settle_seconds = settle_seconds
        self._seen: dict[Path, tuple[tuple[int, int], float]] = {}
        self._told: dict[Path, tuple[int, int]] = {}

    def settled(self, paths: list[Path], now_seconds: float) -> list[Path]:
        """Those of `paths` that are complete now; `now_seconds` is of any clock that goes on."""
        ready = []
        for path in paths:
            try:
                state = path.stat()
            except OSError:
                continue  # gone, or not to be read yet
            looks = (state.st_size, state.st_mtime_ns)
            if looks == self._told.get(path):
                continue
            before = self._seen.get(path)
            if before is None or before[0] != looks:
                self._seen[path] = (looks, now_seconds)
            elif state.st_size and now_seconds - before[1] >= self._settle_seconds:
                self._told[path] = looks
                ready.append(path)
        return ready
