"""What a job says: which item to look at. A job is only a doorbell; everything else is in PostgreSQL."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson

from lingxi.domain.ids import parse_uuid, split_item_id
from lingxi.names import PAYLOAD_VERSION
from lingxi.observability import tracing
from lingxi.services.claim_items import ItemKey

_UUID_CHARACTERS = 36
_TASK_PART_CHARACTERS = 32  # an item's id differs from its task's only in the last four hex digits


class NewerPayload(Exception):
    """The job was written by a later version: give it back, uncharged, to somebody who understands it."""


@dataclass(frozen=True, slots=True)
class PhotoKey:
    """The photo that a job of a first publication names."""

    photo_id: UUID
    album_id: UUID


def parse_photo_job(data: bytes) -> PhotoKey | None:
    """The photo that a job names; None when it names none. Raises NewerPayload."""
    job = _known_version(data)
    if job is None:
        return None
    photo_id, album_id = (parse_uuid(str(job.get(name))) for name in ("photoId", "albumId"))
    return None if photo_id is None or album_id is None else PhotoKey(photo_id, album_id)


def parse_job(data: bytes) -> ItemKey | None:
    """The item that a job names; None when it names none, so that it is no job of ours. Raises NewerPayload."""
    job = _known_version(data)
    if job is None:
        return None
    task_text, item_text = job.get("taskId"), job.get("itemId")
    if not isinstance(task_text, str) or not isinstance(item_text, str) or len(item_text) != _UUID_CHARACTERS:
        return None
    task_id = _task_id(task_text)
    if task_id is None or item_text[:_TASK_PART_CHARACTERS] != task_text[:_TASK_PART_CHARACTERS]:
        return None
    try:
        position = int(item_text[_TASK_PART_CHARACTERS:], 16)
    except ValueError:
        return None
    return ItemKey(task_id, position) if position > 0 else None


def traceparent_in(data: bytes) -> str | None:
    """The trace that a job (whose data name an item or a photo) belongs to; None while nothing is traced."""
    if not tracing.on():
        return None
    given = orjson.loads(data).get("traceparent")
    return given if tracing.is_traceparent(given) else None


def _known_version(data: bytes) -> dict[str, Any] | None:
    """The job's fields; None when it is none of ours. Raises NewerPayload."""
    try:
        job = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(job, dict):
        return None
    version = job.get("v")
    if version == PAYLOAD_VERSION:
        return job
    if type(version) is int and version > PAYLOAD_VERSION:
        raise NewerPayload(version)
    return None


@lru_cache(maxsize=1024)
def _task_id(text: str) -> UUID | None:
    value = parse_uuid(text)
    return value if value is not None and split_item_id(value)[1] == 0 else None
