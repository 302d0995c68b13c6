"""media:probe: what a photo, a video or a sound is, by its content, and what its metadata say about how it was made.

Headers and metadata are read, and one frame of a video is decoded; media:verify is what decodes everything. A field that is
damaged is left out and named in `damaged`. Where it was taken is told only when it is asked for.
"""

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lingxi.imaging.children import Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import HEAD_BYTES as IMAGE_HEAD_BYTES
from lingxi.imaging.sniff import sniff as sniff_image
from lingxi.processors.context import Context
from lingxi.processors.contract import Processor, ProcessorInput, ProcessorResult
from lingxi.processors.video_common import ObjectName, item_error, with_object
from lingxi.video.children import VideoChildren
from lingxi.video.errors import VideoError
from lingxi.video.sniff import HEAD_BYTES as VIDEO_HEAD_BYTES
from lingxi.video.sniff import sniff as sniff_video


class ProbeInput(ProcessorInput):
    """Which object of the own workspace."""

    object_name: ObjectName = Field(alias="object", description="The object's name, as it was put.")
    position: bool = Field(
        False, description="Also tell where it was taken; else only whether that is known."
    )


class Camera(ProcessorResult):
    """How it was taken; what is not known is null."""

    make: str | None = None
    model: str | None = None
    lens_make: str | None = None
    lens: str | None = None
    software: str | None = None
    exposure_seconds: float | None = None
    aperture: float | None = Field(None, description="The f-number.")
    iso: int | None = None
    exposure_bias: float | None = Field(None, description="In EV.")
    focal_length_mm: float | None = None
    focal_length_35mm: int | None = Field(None, alias="focalLength35mm")
    flash_fired: bool | None = None


class Position(ProcessorResult):
    """North and east are positive degrees."""

    latitude: float
    longitude: float
    altitude_meters: float | None = None


class Texts(ProcessorResult):
    """What people wrote: IPTC and XMP before EXIF."""

    title: str | None = None
    caption: str | None = None
    creator: str | None = None
    copyright: str | None = None
    keywords: list[str] = Field(default_factory=list)
    rating: float | None = None


class Picture(ProcessorResult):
    """What only photos have."""

    orientation: int = Field(
        description="EXIF's, 1 where there is none or the container turns the picture itself."
    )
    frames: int
    bit_depth: int = Field(description="Of a sample.")
    has_alpha: bool
    color_space: str = Field(description="What the numbers are: srgb, b-w, cmyk, rgb16, lab …")
    color_profile: str | None = Field(description="Name of the ICC profile.")


class VideoStream(ProcessorResult):
    """One stream of pictures. Sizes are of square pixels, upright."""

    index: int
    codec: str | None = None
    profile: str | None = None
    duration_seconds: float | None = None
    language: str | None = None
    width: int | None = None
    height: int | None = None
    coded_width: int | None = None
    coded_height: int | None = None
    rotation: int | None = Field(None, description="Degrees clockwise by which players turn it.")
    frame_rate: float | None = Field(None, description="Frames a second, on average.")
    pixel_format: str | None = None
    bit_depth: int | None = None
    hdr: Literal["pq", "hlg"] | None = None
    is_interlaced: bool | None = None
    is_cover: bool | None = Field(None, description="A still picture that belongs to a sound.")


class AudioStream(ProcessorResult):
    """One stream of sound."""

    index: int
    codec: str | None = None
    profile: str | None = None
    duration_seconds: float | None = None
    language: str | None = None
    channels: int | None = None
    layout: str | None = None
    sample_rate: int | None = None
    bit_rate: int | None = None


class ProbeResult(ProcessorResult):
    """What the object is. `width` and `height` are as people see it: upright, of square pixels; null for sound."""

    object_name: str = Field(alias="object")
    kind: Literal["image", "video", "audio"]
    content_type: str
    size_bytes: int
    sha256: str
    width: int | None
    height: int | None
    duration_seconds: float | None
    captured_at: str | None = Field(description="RFC 3339 with its offset; null where either is unknown.")
    captured_local: str | None = Field(description="The camera's clock without an offset.")
    has_position: bool
    position: Position | None = Field(description="Only when it was asked for.")
    places: dict[str, str] | None = Field(description="Names of places in IPTC; only with the position.")
    camera: Camera | None
    texts: Texts | None
    picture: Picture | None
    video: list[VideoStream]
    audio: list[AudioStream]
    is_cut: bool = Field(description="A video file that is shorter than its own boxes say.")
    damaged: list[str] = Field(description="Fields that are there and cannot be read.")


class MediaProbe:
    """The processor, with the children that read."""

    def __init__(self, decoders: Decoders, videos: VideoChildren) -> None:
        self._decoders, self._videos = decoders, videos

    def processor(self) -> Processor[ProbeInput]:
        """The entry for the registry."""
        return Processor(
            "media:probe", ProbeInput, self.run, time_limit_seconds=180.0, result_model=ProbeResult
        )

    async def run(self, context: Context, given: ProbeInput) -> ProbeResult:
        """Read one object; Permanent or Transient with a code of ITEM_CODES."""

        async def work(descriptor: int, _: Path) -> dict[str, Any]:
            if is_image(descriptor):
                return _of_image(await self._decoders.describe(descriptor))
            return _of_video(await self._videos.probe(descriptor))

        try:
            fetched, facts = await with_object(context, given.object_name, work)
        except ImageError as error:
            raise item_error(error.code, error.detail) from error
        if not given.position:
            facts |= {"position": None, "places": None}
        stored = fetched.stored
        return ProbeResult.model_validate(
            {
                "object": stored.name,
                "size_bytes": stored.size_bytes,
                "sha256": stored.sha256.hex(),
                **facts,
            }
        )


def is_image(descriptor: int) -> bool:
    """A picture, and not a video or sound? ImageError, in whose words a refusal is, for what is neither."""
    head = os.pread(descriptor, IMAGE_HEAD_BYTES, 0)
    try:
        sniff_image(head)
    except ImageError as refused:
        try:
            sniff_video(head[:VIDEO_HEAD_BYTES])
        except VideoError as error:
            raise (error if "no accepted type" in refused.detail else refused) from None
        return False
    return True


def _of_image(facts: dict[str, Any]) -> dict[str, Any]:
    picture = {name: facts.pop(name) for name in Picture.model_fields}
    camera, texts = facts.pop("camera"), facts.pop("texts")
    return {
        **facts,
        "kind": "image",
        "duration_seconds": None,
        "camera": camera or None,
        "texts": texts or None,
        "picture": picture,
        "video": [],
        "audio": [],
        "is_cut": False,
    }


def _of_video(facts: dict[str, Any]) -> dict[str, Any]:
    shown = next((one for one in facts["video"] if not one.get("is_cover")), None)
    camera = {name: facts.pop(name) for name in ("make", "model") if facts[name]}
    return {
        **facts,
        "kind": "audio" if shown is None else "video",
        "width": shown and shown.get("width"),
        "height": shown and shown.get("height"),
        "captured_local": None,
        "places": None,
        "camera": camera or None,
        "texts": None,
        "picture": None,
    }
