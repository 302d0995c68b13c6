"""What a video may ask for."""

from typing import Final

from lingxi.video.errors import VideoError

MAX_FILE_BYTES: Final = 4 << 30
MAX_PIXELS: Final = 8192 * 4352  # of a frame: 8K
MAX_SECONDS: Final = 3600.0
MAX_STREAMS: Final = 32


def check_file_size(size_bytes: int) -> None:
    """VideoError `empty_file` or `too_large`."""
    if size_bytes == 0:
        raise VideoError("empty_file", "The file is empty.")
    if size_bytes > MAX_FILE_BYTES:
        raise VideoError(
            "too_large", f"The file has {size_bytes} bytes; at most {MAX_FILE_BYTES} are accepted."
        )


def check_pixels(width: int, height: int) -> None:
    """VideoError `too_many_pixels`."""
    if width * height > MAX_PIXELS:
        raise VideoError(
            "too_many_pixels",
            f"The video has {width} x {height} pixels; at most {MAX_PIXELS // 1_000_000} million are accepted.",
        )


def check_seconds(seconds: float) -> None:
    """VideoError `too_long`."""
    if seconds > MAX_SECONDS:
        raise VideoError(
            "too_long", f"The video lasts {seconds:.0f} seconds; at most {MAX_SECONDS:.0f} are accepted."
        )


def check_streams(count: int) -> None:
    """VideoError `too_many_streams`."""
    if count > MAX_STREAMS:
        raise VideoError(
            "too_many_streams", f"The file has {count} streams; at most {MAX_STREAMS} are accepted."
        )
