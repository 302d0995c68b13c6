"""Photographs for these tests: real subjects, and what people and programs do to them."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import pyvips

from tests.unit.imaging.test_exif import exif

SUBJECTS = ("raccoon", "coffee", "cat", "rocket")


@cache
def subject(name: str) -> pyvips.Image:
    data = (resources.files("lingxi.imaging") / "sample_photos" / f"{name}.jpg").read_bytes()
    return pyvips.Image.jpegload_buffer(data).copy_memory()


def jpeg(image: pyvips.Image, quality: int = 85, *, taken: str | None = None, model: str = "EOS R5") -> bytes:
    """A JPEG; with `taken` (`2026:05:01 12:30:00`) one that a camera made."""
    if taken is None:
        return bytes(image.jpegsave_buffer(Q=quality, keep="none"))
    made = exif(main=[(271, 2, "Canon"), (272, 2, model)], photo=[(36867, 2, taken)])
    plain = bytes(image.jpegsave_buffer(Q=quality, keep="none"))
    body = b"Exif\0\0" + made
    return plain[:2] + b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body + plain[2:]


def cropped(image: pyvips.Image, share: float) -> pyvips.Image:
    """`share` of the width and of the height are gone, on all sides alike."""
    dx, dy = int(image.width * share / 2), int(image.height * share / 2)
    return image.crop(dx, dy, image.width - 2 * dx, image.height - 2 * dy)


def moved(image: pyvips.Image, share: float) -> pyvips.Image:
    """As the next frame of a burst: the camera has turned a little."""
    return image.crop(int(image.width * share), 0, int(image.width * (1 - 0.1)), image.height)


def alike(name: str) -> dict[str, Any]:
    """What is still the same photo to people: name → bytes."""
    image = subject(name)
    return {
        "poor": jpeg(image, 30),
        "half": jpeg(image.resize(0.5)),
        "small": jpeg(image.resize(96 / min(image.width, image.height))),
        "gray": jpeg(image.colourspace("b-w")),
        "bright": jpeg((image * 1.15 + 6).cast("uchar")),
        "webp": bytes(image.webpsave_buffer(Q=70)),
        "png": bytes(image.pngsave_buffer(compression=1)),
        "cropped": jpeg(cropped(image, 0.02)),
        "lying": jpeg_lying(image),
    }


def jpeg_lying(image: pyvips.Image) -> bytes:
    """Turned in the file, and upright by its EXIF orientation."""
    turned = image.rot270().copy()
    turned.set_type(pyvips.GValue.gint_type, "orientation", 6)
    return bytes(turned.jpegsave_buffer(Q=85))
