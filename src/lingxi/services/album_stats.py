"""How long the photos of an album took, stage by stage."""

from dataclasses import dataclass
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.photos import TIMELINE_STAGES


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Milliseconds from the stage before to this one, over all photos that passed both.

    `published` and `seen` are from `received` to `committed` and to `firstFrame`.
    """

    stage: str
    count: int
    p50_ms: float
    p95_ms: float
    max_ms: float


async def album_stats(connection: Connection, album_id: UUID) -> list[StageTimes]:
    """The stages in their order; those that no photo has passed are absent."""
    rows = await connection.fetch(sql("albums/stage_times"), album_id, list(TIMELINE_STAGES))
    return [StageTimes(**dict(row)) for row in rows]
