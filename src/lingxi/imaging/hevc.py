"""HEIC and HEIF files: pi_heif reads their headers, its libheif their pixels. libvips's wheel has no HEVC decoder."""

import mmap
from dataclasses import replace

import pi_heif
import pyvips

from lingxi.imaging.colour import with_profile
from lingxi.imaging.libheif import LibheifError, decode_primary
from lingxi.imaging.loaders import DecodeError, Header

pi_heif.options.THUMBNAILS = False
pi_heif.options.DEPTH_IMAGES = False
pi_heif.options.AUX_IMAGES = False

_ERRORS = (ValueError, EOFError, SyntaxError, RuntimeError, OSError, IndexError)
_BYTES_PER_PIXEL = 6  # the decoder's planes, the pixels made of them, and our copy


class HevcPicture:
    """The primary picture of a file. libheif turns and crops it: EXIF's orientation must not be applied again."""

    hevc = True
    shrinks: tuple[int, ...] = ()

    def __init__(self, content: mmap.mmap, profile: bytes | None) -> None:
        try:
            self._content = content[:]
            self._file = pi_heif.open_heif(self._content, convert_hdr_to_8bit=True)
            self._image = self._file[self._file.primary_index]
        except _ERRORS as error:
            raise DecodeError(str(error)) from error
        width, height = self._image.size
        self.header = Header(
            width=width,
            height=height,
            orientation=1,
            frames=len(self._file),
            has_alpha=bool(self._image.has_alpha),
            profile=self._image.info.get("icc_profile") or profile,
            exif=self._image.info.get("exif"),
            decoded_bytes=width * height * _BYTES_PER_PIXEL,
        )
        self.info = dict(self._image.info)  # metadata that a Header does not keep, and `bit_depth`

    def load(self, shrink: int = 1, *, strict: bool = True) -> pyvips.Image:
        bands = 1 if self._image.mode.startswith(("L", "I")) else 4 if self._image.has_alpha else 3
        try:
            pixels, width, height = decode_primary(self._content, bands)
        except LibheifError as error:
            raise DecodeError(str(error)) from error
        self.header = replace(self.header, width=width, height=height)  # a crop is known only now
        image = pyvips.Image.new_from_memory(pixels, width, height, bands, "uchar")
        image = image.copy(interpretation="srgb" if bands >= 3 else "b-w")
        if self._image.premultiplied_alpha:
            image = image.unpremultiply().cast("uchar")
        return image if self.header.profile is None else with_profile(image, self.header.profile)
