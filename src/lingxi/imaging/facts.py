"""What is known of a picture once it has been decoded, and what was made of it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


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


@dataclass(frozen=True, slots=True)
class Looks:
    """What a picture looks like; `width` and `height` are upright. Hashes are 8 bytes, None where nothing can be made out."""

    width: int
    height: int
    perceptual_hash: bytes | None
    difference_hash: bytes | None
    thumb_hash: bytes
    sharpness: float  # grows with detail; of pictures of one size the larger is the sharper
    camera: str | None  # make and model
    captured_local: datetime | None  # the camera's own clock, without an offset


@dataclass(frozen=True, slots=True)
class MadeVariant:
    """A file for viewers: upright, sRGB, on white, without metadata. `kind` is `browse` or `thumb`."""

    kind: str
    path: Path
    width: int
    height: int
    size_bytes: int
    sha256: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class MadePhoto:
    """The original's facts (`width` and `height` upright) and its variants.

    `captured_at` is EXIF's time with its offset; None when either is missing, since a time without an offset is no
    moment. `decoded_ms` and `encoded_ms` say when that was finished, in milliseconds since `make_variants` was called:
    waiting for a child and for memory included.
    """

    content_type: str
    width: int
    height: int
    captured_at: datetime | None
    variants: tuple[MadeVariant, ...]
    decoded_ms: float
    encoded_ms: float
