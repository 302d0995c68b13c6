"""Albums, photos and share links as the wire has them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from lingxi.domain.photos import TIMELINE_STAGES
from lingxi.domain.wire import time_to_wire
from lingxi.services.album_stats import StageTimes
from lingxi.services.share_links import ShareLink


def share_to_wire(link: ShareLink) -> dict[str, Any]:
    """The `ShareLink` of the document, without its secret."""
    return {
        "id": str(link.id),
        "albumId": str(link.album_id),
        "createdAt": time_to_wire(link.created_at),
        "expiresAt": time_to_wire(link.expires_at),
        "revokedAt": time_to_wire(link.revoked_at),
    }


def timeline_to_wire(photo_id: UUID, timeline: Mapping[str, str]) -> dict[str, Any]:
    """The `Timeline` of the document. Machines' clocks differ a little: no stage is told to have ended before it began."""
    stages: list[dict[str, Any]] = []
    first = last = None
    for stage in TIMELINE_STAGES:
        if (text := timeline.get(stage)) is None:
            continue
        at = datetime.fromisoformat(text)
        ms: float | None = None if last is None else _milliseconds(last, at)
        stages.append({"stage": stage, "at": time_to_wire(at), "ms": ms})
        first, last = first or at, at
    total = _milliseconds(first, last) if first and last and len(stages) > 1 else None
    return {"photoId": str(photo_id), "stages": stages, "totalMs": total}


def stats_to_wire(album_id: UUID, stages: Sequence[StageTimes]) -> dict[str, Any]:
    """The `AlbumStats` of the document."""
    return {
        "albumId": str(album_id),
        "stages": [
            {
                "stage": one.stage,
                "count": one.count,
                "p50Ms": round(one.p50_ms, 3),
                "p95Ms": round(one.p95_ms, 3),
                "maxMs": round(one.max_ms, 3),
            }
            for one in stages
        ],
    }


def _milliseconds(earlier: datetime, later: datetime) -> float:
    return round(max(0.0, (later - earlier).total_seconds() * 1000), 3)
