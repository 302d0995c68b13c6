"""The one loader for each kind of picture: what its header says, and its pixels at a fraction of their size.

Rules, each learned from a file: by content, one typed loader and never "any loader" (six bytes of text open as a
matrix, a gain map or a RAW file as something else); what the header asks for is known before a pixel is decoded.
"""

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyvips

from lingxi.imaging import lab, ycbcr
from lingxi.imaging.colour import profile_of, with_profile
from lingxi.imaging.gif import first_frame
from lingxi.imaging.sniff import ImageKind
from lingxi.imaging.wholeness import check_boxes

_LOADERS: Final[dict[ImageKind, tuple[str, Callable[..., Any]]]] = {
    ImageKind.JPEG: ("VipsForeignLoadJpeg", pyvips.Image.jpegload_source),
    ImageKind.PNG: ("VipsForeignLoadPng", pyvips.Image.pngload_source),
    ImageKind.WEBP: ("VipsForeignLoadWebp", pyvips.Image.webpload_source),
    ImageKind.GIF: ("VipsForeignLoadNsgif", pyvips.Image.gifload_source),
    ImageKind.TIFF: ("VipsForeignLoadTiff", pyvips.Image.tiffload_source),
    ImageKind.AVIF: ("VipsForeignLoadHeif", pyvips.Image.heifload_source),
}
_ISOBMFF: Final = (ImageKind.HEIC, ImageKind.HEIF, ImageKind.AVIF)
_HEVC_ITEMS: Final = {b"hvc1", b"hev1"}
_SAMPLE_BYTES: Final = {
    "uchar": 1,
    "char": 1,
    "ushort": 2,
    "short": 2,
    "uint": 4,
    "int": 4,
    "float": 4,
    "double": 8,
}


class DecodeError(Exception):
    """The decoder's own words."""


@dataclass(frozen=True, slots=True)
class Header:
    """What is known before a pixel is decoded. Width and height are as stored; `orientation` is how to turn them, 1 also
    where the container turns the picture itself."""

    width: int
    height: int
    orientation: int
    frames: int
    has_alpha: bool
    profile: bytes | None
    exif: bytes | None
    decoded_bytes: int  # that the pixels take at full size
    many_scans: bool = False

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height as people see them."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


class Picture(Protocol):
    """An opened file."""

    hevc: bool

    @property
    def shrinks(self) -> tuple[int, ...]:
        """By which it can be made smaller while it is decoded, greatest first."""

    @property
    def header(self) -> Header:
        """DecodeError when it cannot be read."""

    def load(self, shrink: int = 1, *, strict: bool = True) -> pyvips.Image:
        """The pixels, to be read once from top to bottom. DecodeError here, or pyvips.Error when they are read.

        `strict`: a JPEG that libjpeg only warns of is refused too.
        """


def block_all_others() -> None:
    """No loader of libvips but ours can be called in this process from here on."""
    pyvips.operation_block_set("VipsForeignLoad", True)
    for name, _ in _LOADERS.values():
        pyvips.operation_block_set(name, False)


def open_picture(kind: ImageKind, content: mmap.mmap, descriptor: int) -> Picture:
    """By the kind that was sniffed. ImageError for boxes that are cut, DecodeError for a header that is not readable."""
    if kind is ImageKind.TIFF and (encoding := lab.encoding_of(content)) is not None:
        return LabPicture(lab.as_rgb(content), encoding)
    if kind is ImageKind.TIFF and ycbcr.is_plain(content):
        if ycbcr.is_subsampled(content):
            raise DecodeError("subsampled YCbCr without JPEG is not implemented")
        return YCbCrPicture(kind, descriptor)
    if kind is ImageKind.GIF:
        return GifPicture(descriptor, first_frame(content))
    if kind not in _ISOBMFF:
        return VipsPicture(kind, descriptor)
    layout = check_boxes(content)
    profile = profile_of(layout.colours)
    if layout.item_types & _HEVC_ITEMS:
        from lingxi.imaging.hevc import HevcPicture  # takes as long to import as a small photo to decode

        return HevcPicture(content, profile)
    return VipsPicture(ImageKind.AVIF, descriptor, profile)


class VipsPicture:
    """What libvips decodes."""

    hevc = False

    def __init__(self, kind: ImageKind, descriptor: int, profile: bytes | None = None) -> None:
        self._kind = kind
        self._profile = profile  # for pictures that hold none
        self._descriptor = descriptor
        self._header: Header | None = None

    @property
    def shrinks(self) -> tuple[int, ...]:
        still_webp = self._kind is ImageKind.WEBP and self.header.frames == 1
        return (8, 4, 2) if self._kind is ImageKind.JPEG or still_webp else ()

    @property
    def header(self) -> Header:
        if self._header is None:
            self._header = self._read_header()
        return self._header

    def load(self, shrink: int = 1, *, strict: bool = True) -> pyvips.Image:
        options: dict[str, Any] = {"access": "sequential", "fail_on": "error"}
        if self._kind is ImageKind.JPEG:
            options |= {"shrink": shrink, "fail_on": "warning" if strict else "error"}
        elif self._kind is ImageKind.WEBP:
            options["scale"] = 1 / shrink
        try:
            image = _LOADERS[self._kind][1](self._source(), **options)
        except pyvips.Error as error:
            raise DecodeError(str(error)) from error
        return image if self._profile is None else with_profile(image, self._profile)

    def _source(self) -> pyvips.Source:
        """Read from its start, wherever its position is."""
        return pyvips.Source.new_from_descriptor(self._descriptor)

    def _read_header(self) -> Header:
        image = self.load(strict=False)
        turns_itself = self._kind is ImageKind.AVIF
        orientation = 1 if turns_itself else field(image, "orientation", 1)
        sample_bytes = _SAMPLE_BYTES.get(image.format, 16)
        return Header(
            width=image.width,
            height=image.height,
            orientation=orientation if orientation in range(1, 9) else 1,
            frames=int(field(image, "n-pages", 1)),
            has_alpha=bool(image.hasalpha()),
            profile=_blob(image, "icc-profile-data"),
            exif=_blob(image, "exif-data"),
            decoded_bytes=image.width * image.height * image.bands * sample_bytes,
            many_scans=bool(field(image, "jpeg-multiscan", 0)),
        )


class GifPicture(VipsPicture):
    """The first frame of a GIF: left, top, width, height of it on the canvas. What it does not cover is transparent, which
    libvips shows as black where no colour is declared transparent."""

    def __init__(self, descriptor: int, frame: tuple[int, int, int, int] | None) -> None:
        super().__init__(ImageKind.GIF, descriptor)
        self._frame = frame

    def load(self, shrink: int = 1, *, strict: bool = True) -> pyvips.Image:
        image = super().load(shrink, strict=strict)
        if self._frame is None or image.hasalpha():
            return image
        left, top, width, height = self._frame
        width, height = min(width, image.width - left), min(height, image.height - top)
        if (width, height) == (image.width, image.height) or width <= 0 or height <= 0:
            return image
        shown = image.crop(left, top, width, height)
        return shown.embed(left, top, image.width, image.height, extend="white")


class YCbCrPicture(VipsPicture):
    """A TIFF in YCbCr without JPEG, with colours of its own for each pixel."""

    def load(self, shrink: int = 1, *, strict: bool = True) -> pyvips.Image:
        return ycbcr.to_rgb(super().load(shrink, strict=strict))


class LabPicture(VipsPicture):
    """A TIFF in CIE L*a*b* of eight bits."""

    def __init__(self, as_rgb: bytes, encoding: int) -> None:
        super().__init__(ImageKind.TIFF, descriptor=-1)
        self._as_rgb = as_rgb
        self._encoding = encoding

    def load(self, shrink: int = 1, *, strict: bool = True) -> pyvips.Image:
        return lab.to_rgb(super().load(shrink, strict=strict), self._encoding)

    def _source(self) -> pyvips.Source:
        return pyvips.Source.new_from_memory(self._as_rgb)


def field(image: pyvips.Image, name: str, default: int) -> int:
    """A whole number of the header."""
    value = image.get(name) if image.get_typeof(name) != 0 else default
    return value if isinstance(value, int) else default


def _blob(image: pyvips.Image, name: str) -> bytes | None:
    return bytes(image.get(name)) if image.get_typeof(name) != 0 else None
