"""What is known of a picture once it has been decoded."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """A picture that decoded to its last pixel. `width` and `height` are upright, in pixels."""

    content_type: str
    width: int
    height: int
    orientation: (
        int  # EXIF's, 1 where there is none, it is invalid, or the container has turned the picture itself
    )
    frames: int  # or pages; only the first is decoded
    has_alpha: bool
    has_color_profile: bool
