"""Decoding, in a child process: hostile bytes meet C code here and nowhere else (pyvips, pi_heif)."""

import mmap
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pyvips

from lingxi.imaging import limits, pipeline
from lingxi.imaging.facts import ImageFacts
from lingxi.imaging.loaders import DecodeError, Picture, block_all_others, open_picture
from lingxi.imaging.refusals import refused, warned_only
from lingxi.imaging.sniff import ImageKind, sniff


def prepare() -> None:
    """Once a process: no cache, and no loader but ours."""
    pyvips.cache_set_max(0)
    block_all_others()


def inspect(descriptor: int, admit: Callable[[int], None]) -> ImageFacts:
    """Sniff, check the limits, decode all pixels of the file behind a descriptor. ImageError when it is refused."""
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content:
        kind = sniff(content)
        try:
            picture = open_picture(kind, content, descriptor)
            limits.check_header(kind, picture, content)
            admit(picture.header.decoded_bytes)
            _decode(kind, picture)
        except (pyvips.Error, DecodeError) as error:
            raise refused(kind, content, str(error)) from error
        header = picture.header
        width, height = header.upright
        return ImageFacts(
            content_type=kind.value,
            width=width,
            height=height,
            orientation=header.orientation,
            frames=header.frames,
            has_alpha=header.has_alpha,
            has_color_profile=header.profile is not None,
        )


def make_variants(descriptor: int, outputs: dict[str, int], admit: Callable[[int], None]) -> dict[str, Any]:
    """Write the variants of the file behind a descriptor to `outputs`, descriptors by kind; facts as JSON takes them.

    ImageError when it is refused; what was written then means nothing.
    """
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content:
        made = asdict(pipeline.make_variants(content, descriptor, outputs, admit))
    return {**made, "captured_at": made["captured_at"] and made["captured_at"].isoformat()}


def _decode(kind: ImageKind, picture: Picture) -> None:
    """Touch every pixel and keep none: the error comes there, not at opening."""
    try:
        picture.load().avg()
    except (pyvips.Error, DecodeError) as error:
        if not warned_only(kind, str(error)):
            raise
        picture.load(strict=False).avg()
