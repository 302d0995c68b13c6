"""photo:fingerprint: what a photo looks like, and which other photos of its album look the same.

The fingerprint, its links to other photos and the item's result are one commit. A photo whose latest pictures have one
already is not decoded again.
"""

import base64
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from lingxi.db.photo_rows import photo_of
from lingxi.db.query import sql
from lingxi.domain.errors import Permanent, Transient
from lingxi.domain.photos import Photo, Visibility
from lingxi.imaging.children import Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import Looks
from lingxi.names import FINGERPRINT_QUEUE
from lingxi.processors.contract import Context, Processor, ProcessorInput, ProcessorResult
from lingxi.processors.publish import original_file
from lingxi.processors.video_common import item_error, unless_stopped
from lingxi.services.keep_fingerprint import (
    Fingerprint,
    Link,
    find_fingerprint,
    find_links,
    keep_fingerprint,
)
from lingxi.storage import StorageUnavailable

CONCURRENCY = 2  # a decoder a core


class FingerprintInput(ProcessorInput):
    """Which photo of the own workspace."""

    photo_id: UUID = Field(description="The photo.", strict=False)


class Alike(ProcessorResult):
    """Another photo of the album."""

    photo_id: UUID
    distance: int = Field(description="Bits of 64 in which the perceptual hashes differ.")


class Print(ProcessorResult):
    """What the photo looks like: upright, in sRGB, on white."""

    generation: int = Field(description="Of the photo's pictures when it was taken; 0: it had none yet.")
    perceptual_hash: str | None = Field(
        description="64 bits in hex; null where nothing can be made out, as in a black frame."
    )
    difference_hash: str | None = Field(description="64 bits in hex, null with the other.")
    thumb_hash: str = Field(description="A ThumbHash, in base64.")
    sharpness: float = Field(
        description="Grows with detail; of two photos of one size the larger is the sharper."
    )
    width: int = Field(description="Of the upright original.")
    height: int
    camera: str | None = Field(description="Make and model.")
    captured_local: str | None = Field(description="The camera's own clock.")


class FingerprintResult(ProcessorResult):
    """`already`: its latest pictures had one. `skipped`: the photo was deleted or recalled, and nothing is told of it."""

    photo_id: UUID
    outcome: Literal["fingerprinted", "already", "skipped"]
    fingerprint: Print | None
    duplicates: list[Alike] = Field(description="The nearest of its album, 16 at most.")
    burst: list[Alike] = Field(description="Taken by the same camera within seconds and alike, 16 at most.")


class PhotoFingerprint:
    """The processor, with the decoders that look."""

    def __init__(self, decoders: Decoders) -> None:
        self._decoders = decoders

    def processor(self) -> Processor[FingerprintInput]:
        """The entry for the registry."""
        return Processor(
            FINGERPRINT_QUEUE,
            FingerprintInput,
            self.run,
            concurrency=CONCURRENCY,
            result_model=FingerprintResult,
            scratch_bytes=1 << 30,
        )

    async def run(self, context: Context, given: FingerprintInput) -> FingerprintResult:
        """Fingerprint one photo; Permanent or Transient with a code of ITEM_CODES."""
        skipped = FingerprintResult(
            photo_id=given.photo_id, outcome="skipped", fingerprint=None, duplicates=[], burst=[]
        )
        async with context.transaction() as connection:
            row = await connection.fetchrow(sql("photos/for_work"), given.photo_id)
            if row is None or row["workspace_id"] != context.item.workspace_id:
                raise Permanent("photo_not_found")
            photo = photo_of(row)
            if row["album_deleted"] or photo.deleted_at or photo.visibility == Visibility.RECALLED:
                return skipped
            known = await find_fingerprint(connection, photo.id)
            if known is not None and known.generation >= photo.published_generation:
                return _result(photo.id, "already", known, await find_links(connection, photo.id))
        taken = _fingerprint(photo, await unless_stopped(context, self._look(context, photo)))
        async with context.transaction() as connection:
            links = await keep_fingerprint(connection, photo.album_id, photo.id, taken)
            result = skipped if links is None else _result(photo.id, "fingerprinted", taken, links)
            context.succeed(result)
        return result

    async def _look(self, context: Context, photo: Photo) -> Looks:
        try:
            async with original_file(photo, context.storage, context.scratch()) as original:
                return await self._decoders.look(original)
        except ImageError as error:
            raise item_error(error.code, error.detail) from error
        except (OSError, StorageUnavailable) as error:
            raise Transient("storage_unavailable") from error


def _fingerprint(photo: Photo, looks: Looks) -> Fingerprint:
    return Fingerprint(
        generation=photo.published_generation,
        perceptual_hash=looks.perceptual_hash,
        difference_hash=looks.difference_hash,
        thumb_hash=looks.thumb_hash,
        sharpness=looks.sharpness,
        width=looks.width,
        height=looks.height,
        camera=looks.camera,
        captured_local=looks.captured_local,
    )


def _result(
    photo_id: UUID, outcome: Literal["fingerprinted", "already"], taken: Fingerprint, links: list[Link]
) -> FingerprintResult:
    return FingerprintResult(
        photo_id=photo_id,
        outcome=outcome,
        fingerprint=Print(
            generation=taken.generation,
            perceptual_hash=_hex(taken.perceptual_hash),
            difference_hash=_hex(taken.difference_hash),
            thumb_hash=base64.b64encode(taken.thumb_hash).decode(),
            sharpness=round(taken.sharpness, 2),
            width=taken.width,
            height=taken.height,
            camera=taken.camera,
            captured_local=_clock(taken.captured_local),
        ),
        duplicates=[Alike(photo_id=link.photo_id, distance=link.distance) for link in links if link.is_near],
        burst=[Alike(photo_id=link.photo_id, distance=link.distance) for link in links if link.is_burst],
    )


def _hex(hash_: bytes | None) -> str | None:
    return None if hash_ is None else hash_.hex()


def _clock(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
