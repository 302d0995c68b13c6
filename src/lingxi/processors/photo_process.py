"""photo:process: makes the pictures of a photo anew, or for the first time, as an item of a task.

An upload needs no task: its job comes with its event (`worker/photo_jobs.py`). A reprocess of an album is one or more tasks of
this type, and what this publishes is what `publish.py` publishes: one transaction, guarded by the item's attempt.
"""

from dataclasses import replace
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lingxi.db.query import sql
from lingxi.names import PHOTO_QUEUE
from lingxi.processors.contract import Context, Permanent, Processor, ProcessorInput
from lingxi.processors.publish import PublishDeps, process_photo

CONCURRENCY = 2  # a decoder a core


class PhotoInput(ProcessorInput):
    """Which photo of the own workspace, and which generation of its pictures."""

    photo_id: UUID = Field(description="The photo.", strict=False)
    generation: int | None = Field(
        None, ge=1, le=2**31 - 1, description="One that was asked for; without it the first publication."
    )


class PhotoResult(BaseModel):
    """`already`: this or a later generation is published. `skipped`: it was deleted or recalled, or was never published."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, validate_by_name=True)

    photo_id: UUID
    outcome: Literal["published", "already", "skipped"]


class PhotoProcess:
    """The processor with what publishing needs."""

    def __init__(self, deps: PublishDeps) -> None:
        self._deps = deps

    def processor(self) -> Processor[PhotoInput]:
        """The entry for the registry."""
        return Processor(PHOTO_QUEUE, PhotoInput, self.run, concurrency=CONCURRENCY)

    async def run(self, context: Context, given: PhotoInput) -> PhotoResult:
        """Publish one photo; Permanent or Transient with a code of ITEM_CODES. What is published stays when it fails."""
        async with self._deps.transaction() as connection:
            photo = await connection.fetchrow(sql("photos/for_work"), given.photo_id)
        if photo is None or photo["workspace_id"] != context.item.workspace_id:
            raise Permanent("photo_not_found")
        if given.generation is not None and given.generation > photo["requested_generation"]:
            raise Permanent("generation_not_requested")
        deps = replace(self._deps, transaction=context.transaction, scratch_folder=context.scratch())
        outcome = await process_photo(given.photo_id, deps, generation=given.generation)
        return PhotoResult(photo_id=given.photo_id, outcome=outcome)
