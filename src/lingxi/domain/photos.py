"""Albums and photos as they are in memory, and as JSON on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from lingxi.domain.errors import FOR_PHOTOGRAPHERS, ITEM_CODES
from lingxi.domain.wire import time_to_wire

TIMELINE_STAGES = (
    "received", "stored", "enqueued", "started", "decoded", "encoded", "variantsStored", "committed", "firstFrame",
)  # fmt: skip
"""What `photos.timeline` keeps of the first publication, in the order in which a photo passes it."""


class ProcessingState(StrEnum):
    """How far the pictures of a photo are."""

    UPLOADED = "uploaded"
    """The original is stored; its variants are not made yet."""

    READY = "ready"
    """Its variants are there."""

    PROCESSING_FAILED = "processing_failed"
    """Its attempts are used up; `error_code` says why."""


class Visibility(StrEnum):
    """Who may see a photo."""

    UNPUBLISHED = "unpublished"
    """Nobody but the workspace: it has not been published yet."""

    PUBLISHED = "published"
    """Everybody who may see the album."""

    HIDDEN = "hidden"
    """Taken out of sight; it can come back."""

    RECALLED = "recalled"
    """Taken back for good: its variants are removed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A published picture of a photo; `file_name` carries its generation and 16 hex digits of its content."""

    kind: str
    generation: int
    storage_key: str
    file_name: str
    width: int
    height: int
    size_bytes: int
    sha256: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Photo:
    """One photo of an album. `last_seq` is the number of its last change in the album's feed."""

    id: UUID
    workspace_id: UUID
    album_id: UUID
    upload_number: int
    file_name: str
    storage_key: str
    size_bytes: int
    sha256: bytes
    content_type: str
    processing_state: str
    visibility: str
    entity_version: int
    requested_generation: int
    published_generation: int
    width: int | None
    height: int | None
    captured_at: datetime | None
    sort_at: datetime
    error_code: str | None
    published_at: datetime | None
    created_at: datetime
    deleted_at: datetime | None
    last_seq: int
    timeline: Mapping[str, str]
    variants: tuple[Variant, ...] = ()

    @property
    def visible(self) -> bool:
        """May somebody with a share link see it?"""
        return self.visibility == Visibility.PUBLISHED and self.deleted_at is None


@dataclass(frozen=True, slots=True)
class Album:
    """An album; `cursor` is its feed's number."""

    id: UUID
    workspace_id: UUID
    name: str
    originals_shared: bool
    created_at: datetime
    deleted_at: datetime | None
    cursor: int


def variant_path(album_id: UUID, photo_id: UUID, file_name: str) -> str:
    """The address of a variant; it changes with the content, so it may be kept for ever."""
    return f"/api/v1/albums/{album_id}/photos/{photo_id}/variants/{file_name}"


def preview_path(album_id: UUID, photo_id: UUID, file_name: str) -> str:
    """Where members see a variant that is not published (any more)."""
    return f"/api/v1/albums/{album_id}/photos/{photo_id}/previews/{file_name}"


def variant_to_wire(photo: Photo, variant: Variant) -> dict[str, Any]:
    path = variant_path if photo.visible else preview_path
    return {
        "kind": variant.kind,
        "width": variant.width,
        "height": variant.height,
        "bytes": variant.size_bytes,
        "contentType": variant.content_type,
        "url": path(photo.album_id, photo.id, variant.file_name),
    }


def photo_problem(code: str, message: str | None = None) -> dict[str, Any]:
    """Why there is no photo: `message` is for engineers, `advice` for the person whose photo it is (null: there is none)."""
    known = ITEM_CODES.get(code)
    return {
        "code": code,
        "message": message or (known.sentence if known else code),
        "advice": FOR_PHOTOGRAPHERS.get(code),
    }


def photo_to_wire(photo: Photo, *, member: bool) -> dict[str, Any]:
    """A photo for a member of the workspace, or for somebody with a share link, who learns no file name and no failure."""
    wire: dict[str, Any] = {
        "id": str(photo.id),
        "albumId": str(photo.album_id),
        "uploadNumber": photo.upload_number,
        "processingState": photo.processing_state,
        "visibility": photo.visibility,
        "entityVersion": photo.entity_version,
        "generation": photo.published_generation,
        "width": photo.width,
        "height": photo.height,
        "capturedAt": time_to_wire(photo.captured_at),
        "publishedAt": time_to_wire(photo.published_at),
        "createdAt": time_to_wire(photo.created_at),
        "variants": [variant_to_wire(photo, variant) for variant in photo.variants],
    }
    if member:
        wire["fileName"] = photo.file_name
        wire["sizeBytes"] = photo.size_bytes
        wire["sha256"] = photo.sha256.hex()
        wire["contentType"] = photo.content_type
        wire["error"] = None if photo.error_code is None else photo_problem(photo.error_code)
    return wire


def album_to_wire(album: Album, counts: Mapping[str, int], *, member: bool) -> dict[str, Any]:
    """An album; `counts` are its photos by what is known of them."""
    wire: dict[str, Any] = {
        "id": str(album.id),
        "name": album.name,
        "originalsShared": album.originals_shared,
        "createdAt": time_to_wire(album.created_at),
        "cursor": album.cursor,
    }
    wire["counts"] = dict(counts) if member else {"published": counts.get("published", 0)}
    return wire


def published_payload(photo: Photo) -> dict[str, Any]:
    """The payload of `photo.published` and `photo.updated`, with the version after the increment."""
    return {
        "v": 1,
        "photoId": str(photo.id),
        "albumId": str(photo.album_id),
        "entityVersion": photo.entity_version,
        "generation": photo.published_generation,
        "publishedAt": time_to_wire(photo.published_at),
        "width": photo.width,
        "height": photo.height,
        "variants": [
            {
                "kind": variant.kind,
                "width": variant.width,
                "height": variant.height,
                "bytes": variant.size_bytes,
                "contentType": variant.content_type,
            }
            for variant in photo.variants
        ],
    }
