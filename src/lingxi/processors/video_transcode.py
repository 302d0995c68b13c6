"""video:transcode: a video that every browser plays: H.264 and AAC in MP4, its index at the front.

The work is done by a child process, which tells how far it is and which is killed when the attempt is to stop: the worker
stops, the lease is lost, the deadline passes. The result becomes an object in the commit that ends the item.
"""

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from lingxi.processors.context import Context
from lingxi.processors.contract import Processor, ProcessorInput, ProcessorResult
from lingxi.processors.outputs import Output, derived_name, succeed_with
from lingxi.processors.video_common import MadeObject, ObjectName, made_object, with_object
from lingxi.services.get_object import StoredObject
from lingxi.video.children import VideoChildren

_MILLISECONDS: Final = 1000


class TranscodeInput(ProcessorInput):
    """Which video of the own workspace, and what to make of it."""

    object_name: ObjectName = Field(alias="object", description="The video's name, as it was put.")
    output: ObjectName | None = Field(
        None, description="The result's name; else the video's with `.web.mp4`."
    )
    resolution: Literal[1080, 720, 480] = Field(
        1080, description="The short edge at most: 1080 means within 1920 x 1080 or, upright, 1080 x 1920."
    )
    quality: int = Field(23, ge=18, le=32, description="x264's CRF: smaller is better and larger.")
    allow_truncated: bool = Field(
        False, description="Make what can be read of a file that is cut off, instead of failing."
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if self.output_name == self.object_name:
            raise ValueError("the result needs another name than the video")
        return self

    @property
    def output_name(self) -> str:
        """Given or derived."""
        return self.output or derived_name(self.object_name, ".web.mp4")


class TranscodeResult(ProcessorResult):
    """The object that was made, and what was done to the video."""

    video: MadeObject
    duration_seconds: float
    frames: int
    rotation: int = Field(description="Degrees clockwise that the video was turned by to be upright.")
    tone_mapped: bool = Field(description="HDR or wide colours were brought to what every screen shows.")
    audio_channels: int = Field(description="0 without sound, else 1 or 2.")
    damaged_packets: int = Field(
        description="Pieces of the file that could not be decoded and were left out."
    )
    truncated_at_seconds: float | None = Field(description="Where a file that is cut off ended; else null.")


class VideoTranscode:
    """The processor, with the children that work."""

    def __init__(self, videos: VideoChildren) -> None:
        self._videos = videos

    def processor(self) -> Processor[TranscodeInput]:
        """The entry for the registry."""
        return Processor(
            "video:transcode",
            TranscodeInput,
            self.run,
            time_limit_seconds=2 * 3600.0,
            concurrency=1,
            result_model=TranscodeResult,
            scratch_bytes=16 << 30,
        )

    async def run(self, context: Context, given: TranscodeInput) -> None:
        """Make it; Permanent or Transient with a code of ITEM_CODES."""

        def tell(done: float, total: float | None) -> None:
            all_of_it = None if total is None else round(max(total, done) * _MILLISECONDS)
            context.progress(round(done * _MILLISECONDS), all_of_it, "milliseconds of the video")

        async def work(descriptor: int, folder: Path) -> None:
            facts = await self._videos.transcode(
                descriptor,
                folder,
                tell,
                short_edge=given.resolution,
                quality=given.quality,
                allow_truncated=given.allow_truncated,
            )
            output = Output(given.output_name, folder / "video.mp4", "video/mp4")

            def result(objects: dict[str, StoredObject]) -> TranscodeResult:
                made = made_object(objects[given.output_name], facts.pop("width"), facts.pop("height"))
                return TranscodeResult(video=made, **facts)

            await succeed_with(context, [output], result)

        await with_object(context, given.object_name, work)
