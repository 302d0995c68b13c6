"""From a file to its two variants, as a list of steps. Runs in a child process.

One decode serves both variants. A JPEG is made smaller while it is decoded (by 8, 4 or 2), colours are converted when
the picture is small, and the thumb is made from the pixels of the browse variant.
"""

import hashlib
import mmap
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyvips

from lingxi.imaging import limits
from lingxi.imaging.capture import captured_at
from lingxi.imaging.colour import on_white, to_srgb
from lingxi.imaging.errors import ImageError
from lingxi.imaging.loaders import DecodeError, Picture, open_picture
from lingxi.imaging.refusals import refused, warned_only
from lingxi.imaging.sniff import ImageKind, sniff

BROWSE_PIXELS: Final = 2048  # of the long edge, as THUMB_PIXELS
THUMB_PIXELS: Final = 400
TOLERANCE: Final = (
    0.95  # of BROWSE_PIXELS is enough where that saves the resize: 4032 pixels of a phone make 2016
)
QUALITY: Final = 80


@dataclass(frozen=True, slots=True)
class Encoded:
    """A variant that was written to its descriptor."""

    kind: str
    width: int
    height: int
    size_bytes: int
    sha256: str


@dataclass(slots=True)
class Work:
    """One photo on its way. `admit` blocks until so many bytes may be decoded; times are of the monotonic clock."""

    content: mmap.mmap
    descriptor: int
    outputs: dict[str, int]  # descriptors by kind of variant
    admit: Callable[[int], None]
    strict: bool = True
    kind: ImageKind = ImageKind.JPEG
    picture: Picture = field(init=False)
    shrink: int = 1
    image: pyvips.Image = field(init=False)
    encoded: list[Encoded] = field(default_factory=list)
    decoded_at: float = 0.0
    encoded_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Made:
    """What became of it; `width` and `height` are the original's, upright."""

    content_type: str
    width: int
    height: int
    captured_at: datetime | None
    variants: list[Encoded]
    decoded_at: float
    encoded_at: float


def make_variants(
    content: mmap.mmap, descriptor: int, outputs: dict[str, int], admit: Callable[[int], None]
) -> Made:
    """Decode the file and write its variants. ImageError when it is refused; what was written then means nothing."""
    work = Work(content, descriptor, outputs, admit)
    try:
        _run(HEADER_STEPS, work)
        try:
            _run(PIXEL_STEPS, work)
        except (pyvips.Error, DecodeError) as error:
            if not warned_only(work.kind, str(error)):
                raise
            work.strict = False
            _run(PIXEL_STEPS, work)
        _run(ENCODE_STEPS, work)
    except (pyvips.Error, DecodeError) as error:
        raise refused(work.kind, content, str(error)) from error
    width, height = work.picture.header.upright
    exif = content if work.kind is ImageKind.TIFF else work.picture.header.exif or b""
    return Made(
        work.kind.value, width, height, captured_at(exif), work.encoded, work.decoded_at, work.encoded_at
    )


def fit(width: int, height: int, box: int) -> tuple[int, int]:
    """The size within `box` x `box`: same shape, never enlarged, and no edge of 0."""
    long_edge = max(width, height)
    if long_edge <= box:
        return width, height
    return max(1, round(width * box / long_edge)), max(1, round(height * box / long_edge))


# ── the header ───────────────────────────────────────────────────────────────────────────────────────────


def sniff_content(work: Work) -> None:
    work.kind = sniff(work.content)


def open_with_its_loader(work: Work) -> None:
    work.picture = open_picture(work.kind, work.content, work.descriptor)


def check_limits(work: Work) -> None:
    limits.check_header(work.kind, work.picture, work.content)


def wait_for_memory(work: Work) -> None:
    work.admit(work.picture.header.decoded_bytes)


# ── the pixels: lazy up to `decode_all`, which is when the file is read ──────────────────────────────────


def load_shrunk(work: Work) -> None:
    """The smallest that is large enough; libvips's own thumbnail waits for twice that."""
    header = work.picture.header
    long_edge, short_edge = max(header.upright), min(header.upright)
    fitting = (
        shrink
        for shrink in work.picture.shrinks
        if long_edge / shrink >= BROWSE_PIXELS * TOLERANCE and short_edge >= shrink
    )
    work.shrink = next(fitting, 1)
    work.image = work.picture.load(work.shrink, strict=work.strict)


def flatten(work: Work) -> None:
    work.image = on_white(work.image, work.picture.header.profile)


def resize(work: Work) -> None:
    image, header = work.image, work.picture.header
    if work.shrink > 1 and max(image.width, image.height) <= BROWSE_PIXELS:
        return
    work.image = _resized(image, *fit(header.width, header.height, BROWSE_PIXELS))


def convert_colours(work: Work) -> None:
    work.image = to_srgb(work.image, work.picture.header.profile)


def decode_all(work: Work) -> None:
    work.image = work.image.copy_memory()
    work.decoded_at = time.monotonic()


def turn_upright(work: Work) -> None:
    if work.picture.header.orientation != 1:
        work.image = work.image.autorot().copy_memory()  # both variants are made of it


# ── the variants ─────────────────────────────────────────────────────────────────────────────────────────


def encode_browse(work: Work) -> None:
    work.encoded.append(_encode(work, "browse"))


def shrink_to_thumb(work: Work) -> None:
    work.image = _resized(work.image, *fit(*work.picture.header.upright, THUMB_PIXELS))


def encode_thumb(work: Work) -> None:
    work.encoded.append(_encode(work, "thumb"))
    work.encoded_at = time.monotonic()


HEADER_STEPS: Final = (sniff_content, open_with_its_loader, check_limits, wait_for_memory)
PIXEL_STEPS: Final = (load_shrunk, flatten, resize, convert_colours, decode_all, turn_upright)
ENCODE_STEPS: Final = (encode_browse, shrink_to_thumb, encode_thumb)


def _run(steps: tuple[Callable[[Work], None], ...], work: Work) -> None:
    for step in steps:
        step(work)


def _resized(image: pyvips.Image, width: int, height: int) -> pyvips.Image:
    if (image.width, image.height) == (width, height):
        return image
    return image.resize(width / image.width, vscale=height / image.height)


def _encode(work: Work, kind: str) -> Encoded:
    """JPEG without any metadata: GPS, serial numbers and the embedded thumbnail would survive otherwise."""
    image = work.image
    data = image.jpegsave_buffer(Q=QUALITY, optimize_coding=True, subsample_mode="on", keep="none")
    _write(work.outputs[kind], data)
    return Encoded(kind, image.width, image.height, len(data), hashlib.sha256(data).hexdigest())


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise ImageError(
            "storage_unavailable", f"A variant could not be written: {error.strerror}."
        ) from error
