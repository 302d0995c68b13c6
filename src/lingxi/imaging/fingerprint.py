"""What a picture looks like, in a few bytes: two perceptual hashes, a ThumbHash, and how sharp it is. Runs in a child process.

All are of the picture as people see it: upright, in sRGB, on white.
"""

import mmap
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyvips
from numpy.typing import NDArray

from lingxi.imaging import limits
from lingxi.imaging.capture import Content
from lingxi.imaging.colour import on_white, to_srgb
from lingxi.imaging.exif import Exif
from lingxi.imaging.loaders import DecodeError, Picture, open_picture
from lingxi.imaging.pipeline import TOLERANCE, fit
from lingxi.imaging.refusals import refused, warned_only
from lingxi.imaging.sniff import ImageKind, sniff
from lingxi.imaging.thumbhash import MAX_PIXELS as THUMBHASH_PIXELS
from lingxi.imaging.thumbhash import Floats, cosines, thumb_hash

WORK_PIXELS: Final = 1024  # of the long edge: sharpness of two pictures can be compared at one size only
_HASH_PIXELS: Final = 32
_ROWS: Final = 11  # enough of the transform's triangle for 64 terms
_LEAST_CONTRAST: Final = (
    3.0  # standard deviation of the 32 x 32 gray pixels; below it hashes are those of noise
)
_SAME_LEVEL: Final = 1.0  # a step that compression makes by itself

Bits = NDArray[np.bool_]


def fingerprint(descriptor: int, admit: Callable[[int], None]) -> dict[str, Any]:
    """The facts as `children.Fingerprint` has them, as JSON takes them. ImageError when it is refused."""
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content:
        kind = sniff(content)
        try:
            picture = open_picture(kind, content, descriptor)
            limits.check_header(kind, picture, content)
            admit(picture.header.decoded_bytes)
            try:
                image = _decode(picture)
            except (pyvips.Error, DecodeError) as error:
                if not warned_only(kind, str(error)):
                    raise
                image = _decode(picture, strict=False)
        except (pyvips.Error, DecodeError) as error:
            raise refused(kind, content, str(error)) from error
        width, height = picture.header.upright
        source: Content = content if kind is ImageKind.TIFF else picture.header.exif or b""
        return {"width": width, "height": height, **_camera(source), **look(image)}


def look(image: pyvips.Image) -> dict[str, Any]:
    """The hashes of an upright sRGB picture of eight bits; both None for one in which nothing can be made out."""
    gray = image.colourspace("b-w")
    small = _pixels(_squeezed(gray, _HASH_PIXELS, _HASH_PIXELS))[:, :, 0].astype(np.float64)
    thumb = _pixels(_squeezed(image, *fit(image.width, image.height, THUMBHASH_PIXELS)))
    seen = bool(small.std() >= _LEAST_CONTRAST)
    return {
        "perceptual_hash": _hex(_perceptual_bits(small)) if seen else None,
        "difference_hash": _hex(_difference_bits(gray)) if seen else None,
        "thumb_hash": thumb_hash(thumb).hex(),
        "sharpness": round(_sharpness(_pixels(gray)[:, :, 0]), 2),
    }


def _decode(picture: Picture, *, strict: bool = True) -> pyvips.Image:
    header = picture.header
    long_edge, short_edge = max(header.upright), min(header.upright)
    fitting = (
        shrink
        for shrink in picture.shrinks
        if long_edge / shrink >= WORK_PIXELS * TOLERANCE and short_edge >= shrink
    )
    image = on_white(picture.load(next(fitting, 1), strict=strict), header.profile)
    image = _squeezed(image, *fit(header.width, header.height, WORK_PIXELS))
    image = to_srgb(image, header.profile).copy_memory()
    return image.autorot().copy_memory() if header.orientation != 1 else image


def _perceptual_bits(small: Floats) -> Bits:
    """Which of the 64 lowest terms of the cosine transform, without the constant one, are above their median."""
    rows = cosines(_HASH_PIXELS, _ROWS)
    terms: Floats = rows @ small @ rows.T
    order = sorted(((y, x) for y in range(_ROWS) for x in range(_ROWS)), key=lambda at: (sum(at), at))[1:65]
    low = np.array([terms[at] for at in order])
    bits: Bits = low > np.median(low)
    return bits


def _difference_bits(gray: pyvips.Image) -> Bits:
    """Of 8 rows of 9 pixels: is the next one brighter?"""
    small = _pixels(_squeezed(gray, 9, 8))[:, :, 0].astype(np.float64)
    bits: Bits = (np.diff(small, axis=1) > _SAME_LEVEL).ravel()
    return bits


def _sharpness(gray: NDArray[np.uint8]) -> float:
    """The variance of the Laplacian: edges make it large, blur takes it away."""
    levels = gray.astype(np.float32)
    if min(levels.shape) < 3:
        return 0.0
    middle = levels[1:-1, 1:-1]
    around = levels[:-2, 1:-1] + levels[2:, 1:-1] + levels[1:-1, :-2] + levels[1:-1, 2:]
    return float((around - 4 * middle).var())


def _camera(exif: Content) -> dict[str, Any]:
    """Make and model, and the camera's own clock: what two pictures of a burst have in common."""
    read = Exif(exif) if exif else None
    if read is None:
        return {"camera": None, "captured_local": None}
    said = read.camera()
    names = [said[name] for name in ("make", "model") if said.get(name)]
    return {"camera": " ".join(names)[:200] or None, "captured_local": read.captured_local()}


def _squeezed(image: pyvips.Image, width: int, height: int) -> pyvips.Image:
    if (image.width, image.height) == (width, height):
        return image
    return image.resize(width / image.width, vscale=height / image.height)


def _pixels(image: pyvips.Image) -> NDArray[np.uint8]:
    """(height, width, bands)."""
    data = np.frombuffer(image.write_to_memory(), np.uint8)
    return data.reshape(image.height, image.width, image.bands)


def _hex(bits: Bits) -> str:
    return np.packbits(bits).tobytes().hex()
