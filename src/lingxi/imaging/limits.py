"""What a picture may ask for. All of it is known from the header, before a pixel is decoded."""

from typing import TYPE_CHECKING, Final

from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import ImageKind

if TYPE_CHECKING:  # the parent of the decoders reads this module and does without libvips
    from lingxi.imaging.loaders import Picture

# A baseline JPEG is decoded line by line; most others need the whole picture in memory, HEIC several times over.
MAX_PIXELS_BASELINE_JPEG: Final = 268_000_000
MAX_PIXELS: Final = 100_000_000
MAX_PIXELS_HEVC: Final = 64_000_000
MAX_FILE_BYTES: Final = 1 << 29


def max_pixels(kind: ImageKind, *, many_scans: bool = False, hevc: bool = False) -> int:
    """The limit for a kind; `many_scans`: a JPEG that is not baseline; `hevc`: HEIC and HEIF with that codec."""
    if hevc:
        return MAX_PIXELS_HEVC
    return MAX_PIXELS_BASELINE_JPEG if kind is ImageKind.JPEG and not many_scans else MAX_PIXELS


def check_header(kind: ImageKind, picture: "Picture") -> None:
    """ImageError `too_many_pixels` for what an opened file declares."""
    header = picture.header
    limit = max_pixels(kind, many_scans=header.many_scans, hevc=picture.hevc)
    check_pixels(header.width, header.height, limit)


def check_pixels(width: int, height: int, limit: int) -> None:
    """ImageError `too_many_pixels` when the header declares more than `limit`."""
    if width * height > limit:
        raise ImageError(
            "too_many_pixels",
            f"The picture has {width} x {height} pixels; at most {limit // 1_000_000} million are accepted.",
        )


def check_file_size(size_bytes: int) -> None:
    """ImageError `empty_file` or `too_large`."""
    if size_bytes == 0:
        raise ImageError("empty_file", "The file is empty.")
    if size_bytes > MAX_FILE_BYTES:
        raise ImageError(
            "too_large", f"The file has {size_bytes} bytes; at most {MAX_FILE_BYTES} are accepted."
        )
