"""What a picture may ask for. All of it is known from the header, before a pixel is decoded."""

from typing import TYPE_CHECKING, Final

from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import Content, ImageKind
from lingxi.imaging.wholeness import check_written, jpeg_scans, too_short, undecodable

if TYPE_CHECKING:  # the parent of the decoders reads this module and does without libvips
    from lingxi.imaging.loaders import Picture

# A baseline JPEG is decoded line by line; most others need the whole picture in memory, HEIC several times over.
MAX_PIXELS_BASELINE_JPEG: Final = 268_000_000
MAX_PIXELS: Final = 100_000_000
MAX_PIXELS_HEVC: Final = 64_000_000
MAX_FILE_BYTES: Final = 1 << 29
# A JPEG of many scans is gone through once for each of them: 100 million pixels in 25 scans, which no camera needs.
MAX_SCANNED_PIXELS: Final = 2_500_000_000


def max_pixels(kind: ImageKind, *, many_scans: bool = False, hevc: bool = False) -> int:
    """The limit for a kind; `many_scans`: a JPEG that is not baseline; `hevc`: HEIC and HEIF with that codec."""
    if hevc:
        return MAX_PIXELS_HEVC
    return MAX_PIXELS_BASELINE_JPEG if kind is ImageKind.JPEG and not many_scans else MAX_PIXELS


def check_header(kind: ImageKind, picture: "Picture", content: Content) -> None:
    """ImageError `too_many_pixels` for what an opened file declares; `truncated_image` or `corrupt_image` where the file
    is too short to hold that (its decoder would fill the memory for all of it before it notices), or has zeros for pixels."""
    header = picture.header
    limit = max_pixels(kind, many_scans=header.many_scans, hevc=picture.hevc)
    check_pixels(header.width, header.height, limit)
    if too_short(kind, content, header.width, header.height, many_scans=header.many_scans):
        raise undecodable(kind, content)
    check_written(kind, content)
    if header.many_scans:
        check_scans(header.width, header.height, jpeg_scans(content))


def check_scans(width: int, height: int, scans: int) -> None:
    """ImageError `too_many_pixels` when they are to be gone through too often."""
    if width * height * scans > MAX_SCANNED_PIXELS:
        raise ImageError(
            "too_many_pixels",
            f"The picture has {width} x {height} pixels in {scans} scans, which is too much.",
        )


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
