"""TIFFs in YCbCr without JPEG: libtiff turns to RGB what JPEG packed, and libvips shows the rest as if it were RGB."""

from typing import Final

import pyvips

from lingxi.imaging.tiff import Content, Reader

_COMPRESSION, _PHOTOMETRIC, _SUBSAMPLING = 259, 262, 530
_YCBCR: Final = [6]
_JPEG: Final = ([6], [7])
_EACH_PIXEL: Final = [1, 1]
# By the luma of TIFF 6.0, section 21, whose defaults are what writers write.
_TO_RGB: Final = [[1, 0, 1.402], [1, -0.344136, -0.714136], [1, 1.772, 0]]


def is_plain(content: Content) -> bool:
    """Are the first picture's pixels YCbCr that nobody turns to RGB?"""
    first = _first(content)
    return first is not None and first[0] == _YCBCR and first[1] not in _JPEG


def is_subsampled(content: Content) -> bool:
    """Is its colour stored for groups of pixels (2 x 2 unless the file says otherwise)?"""
    first = _first(content)
    return first is not None and first[2] != _EACH_PIXEL


def to_rgb(image: pyvips.Image) -> pyvips.Image:
    """Three bands of bytes, from the numbers as they are in the file."""
    zeros_apart = image.extract_band(0, n=3).linear([1, 1, 1], [0, -128, -128])
    return (
        zeros_apart.recomb(pyvips.Image.new_from_array(_TO_RGB))
        .rint()
        .cast("uchar")
        .copy(interpretation="srgb")
    )


def _first(content: Content) -> tuple[list[int], list[int], list[int]] | None:
    try:
        reader = Reader(content)
        first = reader.first_entries()
        return (
            reader.values(first, _PHOTOMETRIC),
            reader.values(first, _COMPRESSION),
            reader.values(first, _SUBSAMPLING),
        )
    except EOFError:
        return None
