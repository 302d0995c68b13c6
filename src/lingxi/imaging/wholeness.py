"""Is a file cut off? Asked of a file that did not decode, to say `truncated_image` rather than `corrupt_image`; also before,
where its decoder would make a picture of it in silence: of HEIC and AVIF, and of files whose pixels were never written (a copy
that broke off may have the right size, and zeros in the place of what is missing)."""

from typing import Final

from lingxi.imaging import gif, isobmff, tiff
from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import Content, ImageKind

_MAX_SEGMENTS: Final = 65_536
_END_OF_JPEG: Final = b"\xff\xd9"
_START_OF_SCAN: Final = b"\xff\xda"
_MAX_SCANS: Final = 10_000
_PNG_SAMPLES: Final = {b"\0": 1, b"\2": 3, b"\3": 1, b"\4": 2, b"\6": 4}  # samples of a pixel, by colour type
_DEFLATED_TO_AT_BEST: Final = 1032  # one byte of zlib stands for so many
_NOTHING: Final = bytes(512)  # no compressed pixels have so many zeros in a row
_HEVC_ITEMS: Final = {b"hvc1", b"hev1"}
_PIXELS_OF_A_SCAN_BYTE: Final = 512  # a bit for each block of 8 x 8


def check_boxes(content: Content) -> isobmff.Layout:
    """The layout of a HEIC, HEIF or AVIF file that is whole; ImageError `truncated_image` or `corrupt_image` else."""
    try:
        found = isobmff.layout(content)
    except isobmff.MalformedBoxes as error:
        raise ImageError("corrupt_image", f"The picture is damaged: {error}.") from error
    if found.needed_bytes > len(content):
        missing = found.needed_bytes - len(content)
        raise ImageError("truncated_image", f"The picture is cut off: at least {missing} bytes are missing.")
    if not found.has_meta:
        if found.has_movie:
            raise ImageError("unsupported_type", "The file is a moving picture without a still one.")
        raise ImageError("truncated_image", "The picture is cut off: all but its beginning is missing.")
    pixels = ((start, end) for item, start, end in found.extents if found.items.get(item) in _HEVC_ITEMS)
    if any(content.find(_NOTHING, start, end) >= 0 for start, end in pixels):
        raise _unwritten()
    return found


def check_written(kind: ImageKind, content: Content) -> None:
    """ImageError `truncated_image` for a file that has zeros where its pixels should be."""
    match kind:
        case ImageKind.JPEG:
            unwritten = content[-len(_NOTHING) :] == _NOTHING and _jpeg_is_cut(content)
        case ImageKind.WEBP:
            unwritten = _webp_ends_in_nothing(content)
        case ImageKind.GIF:
            unwritten = content[-len(_NOTHING) :] == _NOTHING and gif.end_of_blocks(content) != b"\x3b"
        case _:
            unwritten = False  # their decoders notice
    if unwritten:
        raise _unwritten()


def _unwritten() -> ImageError:
    return ImageError(
        "truncated_image", "The picture is cut off: there are only zeros in the place of a part of it."
    )


def undecodable(kind: ImageKind, content: Content) -> ImageError:
    """The error for a picture that its decoder refused. Its words are no help: "premature end" may be damage."""
    if _is_cut(kind, content):
        return ImageError("truncated_image", "The picture is cut off: a part of the file is missing.")
    return ImageError("corrupt_image", "The picture is damaged and cannot be decoded.")


def too_short(kind: ImageKind, content: Content, width: int, height: int, *, many_scans: bool) -> bool:
    """Could so many pixels not be in so few bytes? Asked of the kinds whose decoder sets the memory for all pixels up first:
    a JPEG of many scans, which is also looked at for its end, and PNG."""
    if kind is ImageKind.PNG:
        bits = _PNG_SAMPLES.get(content[25:26], 1) * int.from_bytes(
            content[24:25]
        )  # a pixel, by its colour type and bit depth
        return width * height * bits // 8 > _DEFLATED_TO_AT_BEST * len(content)
    if kind is ImageKind.JPEG and many_scans:
        return _jpeg_is_cut(content) or width * height > _PIXELS_OF_A_SCAN_BYTE * len(content)
    return False


def jpeg_scans(content: Content) -> int:
    """How many scans a JPEG has, at most; one that its thumbnail has is counted too."""
    found, at = 0, content.find(_START_OF_SCAN)
    while at >= 0 and found < _MAX_SCANS:
        found, at = found + 1, content.find(_START_OF_SCAN, at + 2)
    return found


def png_size(content: Content) -> tuple[int, int]:
    """Width and height that a PNG's header declares."""
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def _is_cut(kind: ImageKind, content: Content) -> bool:
    match kind:
        case ImageKind.JPEG:
            return _jpeg_is_cut(content)
        case ImageKind.PNG:
            return _png_is_cut(content)
        case ImageKind.GIF:
            return not gif.end_of_blocks(content)
        case ImageKind.WEBP:
            return int.from_bytes(content[4:8], "little") + 8 > len(content)
        case ImageKind.TIFF:
            return tiff.is_cut(content)
        case _:
            return False  # check_boxes has been there


def _jpeg_is_cut(content: Content) -> bool:
    """No end marker after the first scan; markers inside the segments before it (a thumbnail's) do not count."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        while content[at : at + 2] == b"\xff\xff":
            at += 1  # fill bytes
        marker = content[at : at + 2]
        if len(marker) < 2:
            return True
        if marker[0] != 0xFF:
            return False  # damaged, not cut
        if marker[1] == 0xDA:
            return content.find(_END_OF_JPEG, at) < 0
        if marker[1] == 0xD9:
            return False
        at += 2 + (
            0
            if marker[1] == 1 or 0xD0 <= marker[1] <= 0xD7
            else max(2, int.from_bytes(content[at + 2 : at + 4]))
        )
    return False


def _png_is_cut(content: Content) -> bool:
    at = 8
    for _ in range(_MAX_SEGMENTS):
        if content[at + 4 : at + 8] == b"IEND":
            return at + 12 > len(content)
        if at + 8 > len(content):
            return True
        at += 12 + int.from_bytes(content[at : at + 4])
    return False


def _webp_ends_in_nothing(content: Content) -> bool:
    """Do the pixels of the first picture?"""
    at = 12
    for _ in range(_MAX_SEGMENTS):
        kind, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
        if kind in (b"VP8 ", b"VP8L"):
            return content[max(at + 8, at + 8 + size - len(_NOTHING)) : at + 8 + size] == _NOTHING
        if len(kind) < 4:
            return False
        at += 24 if kind == b"ANMF" else 8 + size + (size & 1)  # a frame holds chunks of its own
    return False
