"""video:poster: a picture that stands for a video, and a few silent seconds of it.

Several frames are decoded and scored; the best is turned upright, brought to sRGB and stored as a JPEG. The preview begins
around it. Both become objects of the workspace in the commit that ends the item.
"""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from lingxi.processors.context import Context
from lingxi.processors.contract import Processor, ProcessorInput, ProcessorResult
from lingxi.processors.outputs import Output, derived_name, succeed_with
from lingxi.processors.video_common import MadeObject, ObjectName, made_object, with_object
from lingxi.services.get_object import StoredObject
from lingxi.video.children import VideoChildren


class PosterInput(ProcessorInput):
    """Which video of the own workspace, and how the results are called."""

    object_name: ObjectName = Field(alias="object", description="The video's name, as it was put.")
    poster: ObjectName | None = Field(
        None, description="The poster's name; else the video's with `.poster.jpg`."
    )
    preview: ObjectName | None = Field(
        None, description="The preview's name; else the video's with `.preview.mp4`."
    )
    at_seconds: float | None = Field(
        None, ge=0, le=86_400, description="This moment instead of the best frame."
    )
    preview_seconds: float = Field(5.0, ge=0, le=5, description="Length of the preview at most; 0 for none.")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [self.object_name, self.poster_name]
        if self.preview_seconds > 0:
            names.append(self.preview_name)
        if len(set(names)) < len(names):
            raise ValueError("the video, its poster and its preview need names that differ")
        return self

    @property
    def poster_name(self) -> str:
        """Given or derived."""
        return self.poster or derived_name(self.object_name, ".poster.jpg")

    @property
    def preview_name(self) -> str:
        """Given or derived."""
        return self.preview or derived_name(self.object_name, ".preview.mp4")


class Preview(MadeObject):
    """A few seconds without sound: H.264 in MP4."""

    duration_seconds: float


class PosterResult(ProcessorResult):
    """The objects that were made. `atSeconds` is the poster's moment; `isPoor`: nothing better than black or blank was found."""

    poster: MadeObject
    preview: Preview | None
    at_seconds: float
    rotation: int = Field(description="Degrees clockwise that the video was turned by to be upright.")
    tone_mapped: bool = Field(description="HDR or wide colours were brought to what every screen shows.")
    is_poor: bool


class VideoPoster:
    """The processor, with the children that decode."""

    def __init__(self, videos: VideoChildren) -> None:
        self._videos = videos

    def processor(self) -> Processor[PosterInput]:
        """The entry for the registry."""
        return Processor(
            "video:poster",
            PosterInput,
            self.run,
            time_limit_seconds=300.0,
            concurrency=2,
            result_model=PosterResult,
            scratch_bytes=8 << 30,
        )

    async def run(self, context: Context, given: PosterInput) -> None:
        """Make both; Permanent or Transient with a code of ITEM_CODES."""

        async def work(descriptor: int, folder: Path) -> None:
            facts = await self._videos.make_poster(
                descriptor, folder, at_seconds=given.at_seconds, preview_seconds=given.preview_seconds
            )
            preview = facts.pop("preview")
            outputs = [Output(given.poster_name, folder / "poster.jpg", "image/jpeg")]
            if preview is not None:
                outputs.append(Output(given.preview_name, folder / "preview.mp4", "video/mp4"))

            def result(objects: dict[str, StoredObject]) -> PosterResult:
                poster = made_object(objects[given.poster_name], facts.pop("width"), facts.pop("height"))
                return PosterResult(
                    poster=poster,
                    preview=None if preview is None else _preview(objects[given.preview_name], preview),
                    **facts,
                )

            await succeed_with(context, outputs, result)

        await with_object(context, given.object_name, work)


def _preview(stored: StoredObject, facts: dict[str, float]) -> Preview:
    made = made_object(stored, int(facts["width"]), int(facts["height"]))
    return Preview(**made.model_dump(by_alias=True), duration_seconds=facts["duration_seconds"])
