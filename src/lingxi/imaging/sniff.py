"""What a file is, by its content: names and headers of requests are only claims."""

import mmap
from enum import StrEnum
from typing import Final

from lingxi.imaging.errors import ImageError
from lingxi.imaging.isobmff import brands
from lingxi.imaging.tiff import raw_maker

Content = bytes | mmap.mmap  # sliced, never copied as a whole

HEAD_BYTES: Final = 1 << 16  # enough to tell every type; a TIFF that is a RAW file may take more
OCTET_STREAM: Final = "application/octet-stream"


class ImageKind(StrEnum):
    """A type that is accepted; the value is its content type."""

    JPEG = "image/jpeg"
    PNG = "image/png"
    WEBP = "image/webp"
    GIF = "image/gif"
    TIFF = "image/tiff"
    AVIF = "image/avif"
    HEIC = "image/heic"
    HEIF = "image/heif"


_HEIC_BRANDS: Final = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
_HEIF_BRANDS: Final = {b"mif1", b"mif2", b"msf1", b"miaf"}
_AVIF_BRANDS: Final = {b"avif", b"avis"}

_RAW: Final = "a camera's RAW file; export it as JPEG"
# What people upload by mistake, so that the refusal can say what it is.
_FOREIGN: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"%PDF", "a PDF document"),
    (0, b"BM", "a BMP picture; save it as PNG"),
    (0, b"\xff\x0a", "a JPEG XL picture; save it as JPEG"),
    (0, b"\x00\x00\x00\x0cJXL ", "a JPEG XL picture; save it as JPEG"),
    (0, b"\x00\x00\x00\x0cjP  ", "a JPEG 2000 picture; save it as JPEG"),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 picture; save it as JPEG"),
    (0, b"8BPS", "a Photoshop document; export it as JPEG"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"IIRO", _RAW),
    (0, b"IIRS", _RAW),
    (0, b"IIU\x00", _RAW),
    (0, b"MMOR", _RAW),
    (0, b"FUJIFILMCCD-RAW", _RAW),
    (0, b"FOVb", _RAW),
    (0, b"\x00MRM", _RAW),
    (6, b"HEAPCCDR", _RAW),
    (0, b"\x1aE\xdf\xa3", "a video"),
    (4, b"moov", "a video"),
    (4, b"mdat", "a video"),
    (4, b"wide", "a video"),
    (8, b"AVI ", "a video"),
    (8, b"WAVE", "a sound"),
    (0, b"ID3", "a sound"),
    (0, b"\x1f\x8b", "a compressed file"),
    (0, b"\x00\x05\x16\x07", "what macOS keeps beside a file; upload the photo itself"),
    (0, b"\x08\xf2\xa6\xb6", "a file of the vips program"),
    (0, b"\xb6\xa6\xf2\x08", "a file of the vips program"),
)


def sniff(content: Content) -> ImageKind:
    """The kind of picture; ImageError `empty_file` or `unsupported_type`, with a sentence on what the file is."""
    if len(content) == 0:
        raise ImageError("empty_file", "The file is empty.")
    head = content[:16]
    if head.startswith(b"\xff\xd8\xff"):
        return ImageKind.JPEG
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageKind.PNG
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ImageKind.WEBP
    if head.startswith((b"GIF87a", b"GIF89a")):
        return ImageKind.GIF
    if head.startswith((b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")):
        if (maker := raw_maker(content)) is not None:
            raise ImageError("unsupported_type", f"The file is {_RAW} ({maker}).")
        return ImageKind.TIFF
    if head[4:8] == b"ftyp":
        return _sniff_isobmff(content)
    raise ImageError("unsupported_type", f"The file is {_foreign(content)}.")


def content_type_of(head: bytes) -> str:
    """The content type of a file that begins with `head` (HEAD_BYTES of it); OCTET_STREAM when it is no picture."""
    try:
        return sniff(head).value
    except ImageError:
        return OCTET_STREAM


def _sniff_isobmff(content: Content) -> ImageKind:
    major, compatible = brands(content)
    if major in _AVIF_BRANDS:
        return ImageKind.AVIF
    if major in _HEIC_BRANDS:
        return ImageKind.HEIC
    if major in _HEIF_BRANDS:
        return (
            ImageKind.AVIF if compatible & _AVIF_BRANDS and not compatible & _HEIC_BRANDS else ImageKind.HEIF
        )
    if len(major) < 4:
        raise ImageError("truncated_image", "The file is cut off: there are a few bytes of it.")
    what = _RAW if major == b"crx " else "a video or another container, not a picture"
    raise ImageError("unsupported_type", f"The file is {what}.")


def _foreign(content: Content) -> str:
    for offset, magic, what in _FOREIGN:
        if content[offset : offset + len(magic)] == magic:
            return what
    start = content[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<svg", b"<?xml", b"<!doctype svg", b"<!--")):
        return "an SVG drawing or another XML document"
    if start.startswith((b"<!doctype html", b"<html")):
        return "a web page"
    return "of no accepted type (JPEG, PNG, WebP, AVIF, HEIC, TIFF, GIF)"
