"""HEIC and HEIF files, by pi_heif: libvips's wheel has no HEVC decoder."""

import mmap
from dataclasses import replace

import pi_heif
import pyvips

from lingxi.imaging.colour import with_profile
from lingxi.imaging.loaders import DecodeError, Header

pi_heif.options.DECODE_THREADS = 1  # a photo a core is faster than two threads on one
pi_heif.options.THUMBNAILS = False
pi_heif.options.DEPTH_IMAGES = False
pi_heif.options.AUX_IMAGES = False

_ERRORS = (ValueError, EOFError, SyntaxError, RuntimeError, OSError, IndexError)
_BYTES_PER_PIXEL = 6  # the decoder's planes, the pixels made of them, and our copy
_BANDS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}


class HevcPicture:
    """The primary picture of a file. libheif turns and crops it: EXIF's orientation must not be applied again."""

    hevc = True
    shrinks: tuple[int, ...] = ()

    def __init__(self, content: mmap.mmap, profile: bytes | None) -> None:
        try:
            self._file = pi_heif.open_heif(content[:], convert_hdr_to_8bit=True)
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
        try:
            self._image.load()
            width, height = self._image.size
            # Its memory is not owned by the buffer that it hands out: without a copy the process dies.
            pixels = bytes(self._image.data)
            bands = _BANDS[self._image.mode.upper()]
        except (*_ERRORS, KeyError) as error:
            raise DecodeError(str(error)) from error
        self.header = replace(self.header, width=width, height=height)  # a crop is known only now
        image = pyvips.Image.new_from_memory(pixels, width, height, bands, "uchar")
        image = image.copy(interpretation="srgb" if bands >= 3 else "b-w")
        if self._image.premultiplied_alpha:
            image = image.unpremultiply().cast("uchar")
        return image if self.header.profile is None else with_profile(image, self.header.profile)
