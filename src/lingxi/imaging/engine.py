"""Decoding, in a child process: hostile bytes meet C code here and nowhere else (pyvips, pi_heif).

Rules, each learned from a file: one typed loader by content and never "any loader" (six bytes of text open as a
matrix); limits before pixels; `fail_on="error"`, or a cut JPEG is half grey; all pixels, since the error comes there.
"""

import mmap
import re
from typing import Any, Final

import pyvips

from lingxi.imaging import limits
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import ImageFacts
from lingxi.imaging.sniff import ImageKind, sniff
from lingxi.imaging.wholeness import check_boxes, undecodable

_LOADERS: Final = {
    ImageKind.JPEG: ("VipsForeignLoadJpeg", pyvips.Image.jpegload_source),
    ImageKind.PNG: ("VipsForeignLoadPng", pyvips.Image.pngload_source),
    ImageKind.WEBP: ("VipsForeignLoadWebp", pyvips.Image.webpload_source),
    ImageKind.GIF: ("VipsForeignLoadNsgif", pyvips.Image.gifload_source),
    ImageKind.TIFF: ("VipsForeignLoadTiff", pyvips.Image.tiffload_source),
    ImageKind.AVIF: ("VipsForeignLoadHeif", pyvips.Image.heifload_source),
}
_HEVC_ITEMS: Final = {b"hvc1", b"hev1"}
_SAYS_UNSUPPORTED: Final = re.compile(
    r"not implemented|not configured|not been built|unsupported jpeg process", re.IGNORECASE
)
_SAYS_TOO_LARGE: Final = re.compile(r"security limit|maximum image size", re.IGNORECASE)
_SAYS_INCOMPLETE: Final = "premature end"


def prepare() -> None:
    """Once a process: no cache, one thread, and no loader but ours."""
    pyvips.cache_set_max(0)
    pyvips.operation_block_set("VipsForeignLoad", True)
    for name, _ in _LOADERS.values():
        pyvips.operation_block_set(name, False)


def inspect(descriptor: int) -> ImageFacts:
    """Sniff, check the limits, decode all pixels of the file behind a descriptor. ImageError when it is refused."""
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content:
        kind = sniff(content)
        if kind in (ImageKind.HEIC, ImageKind.HEIF, ImageKind.AVIF):
            if check_boxes(content).item_types & _HEVC_ITEMS:
                return _inspect_hevc(kind, content)
            return _inspect(kind, ImageKind.AVIF, content, descriptor)
        return _inspect(kind, kind, content, descriptor)


def _inspect(kind: ImageKind, loader: ImageKind, content: mmap.mmap, descriptor: int) -> ImageFacts:
    try:
        image = _decode(kind, loader, descriptor, "warning" if loader is ImageKind.JPEG else "error")
    except pyvips.Error as error:
        if loader is not ImageKind.JPEG or _SAYS_INCOMPLETE in str(error):
            raise _refused(kind, content, str(error)) from error
        image = _decode_forgiving(kind, content, descriptor)
    turns_itself = loader is ImageKind.AVIF
    orientation = 1 if turns_itself else _orientation(image)
    turned = orientation >= 5
    return ImageFacts(
        content_type=kind.value,
        width=image.height if turned else image.width,
        height=image.width if turned else image.height,
        orientation=orientation,
        frames=int(_field(image, "n-pages", 1)),
        has_alpha=bool(image.hasalpha()),
        has_color_profile=image.get_typeof("icc-profile-data") != 0,
    )


def _decode(kind: ImageKind, loader: ImageKind, descriptor: int, fail_on: str) -> pyvips.Image:
    source = pyvips.Source.new_from_descriptor(descriptor)  # read from its start, wherever its position is
    image = _LOADERS[loader][1](source, access="sequential", fail_on=fail_on)
    many_scans = bool(_field(image, "jpeg-multiscan", 0))
    limits.check_pixels(image.width, image.height, limits.max_pixels(kind, many_scans=many_scans))
    image.avg()  # touches every pixel and keeps none
    return image


def _decode_forgiving(kind: ImageKind, content: mmap.mmap, descriptor: int) -> pyvips.Image:
    """A JPEG that libjpeg warned of. Harmless junk between segments is one warning of many; the one that is not, pixels
    that were never there although the end marker is, was looked for before."""
    try:
        return _decode(kind, ImageKind.JPEG, descriptor, "error")
    except pyvips.Error as error:
        raise _refused(kind, content, str(error)) from error


def _inspect_hevc(kind: ImageKind, content: mmap.mmap) -> ImageFacts:
    import pi_heif  # only where there is one: it takes as long to import as a small photo to decode

    try:
        file = pi_heif.open_heif(content[:], convert_hdr_to_8bit=True)
        image = file[file.primary_index]
        width, height = image.size
        limits.check_pixels(width, height, limits.max_pixels(kind, hevc=True))
        image.load()  # its data belong to `image`; they are not copied here, and not kept
        width, height = image.size
    except (ValueError, EOFError, SyntaxError, RuntimeError, OSError, IndexError) as error:
        raise _refused(kind, content, str(error)) from error
    return ImageFacts(
        content_type=kind.value,
        width=width,
        height=height,
        orientation=1,
        frames=len(file),
        has_alpha=bool(image.has_alpha),
        has_color_profile="icc_profile" in image.info,
    )


def _refused(kind: ImageKind, content: mmap.mmap, message: str) -> ImageError:
    if "out of memory" in message.lower():
        return ImageError("decoder_crashed", "Decoding the picture took more memory than is allowed.")
    if _SAYS_TOO_LARGE.search(message):
        return ImageError("too_many_pixels", "The picture's header asks for more than any decoder may take.")
    if _SAYS_UNSUPPORTED.search(message):
        return ImageError("unsupported_type", f"The {kind.name} file uses an encoding that is not accepted.")
    return undecodable(kind, content)


def _orientation(image: pyvips.Image) -> int:
    value = _field(image, "orientation", 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _field(image: pyvips.Image, name: str, default: int) -> Any:
    return image.get(name) if image.get_typeof(name) != 0 else default
