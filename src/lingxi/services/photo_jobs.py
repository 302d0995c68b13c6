"""The job of a photo's first publication: a row that one worker owns at a time, under a lease of five minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.services.outbox_events import photo_event

STALE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class PhotoClaim:
    """An attempt of a photo's job that this worker owns."""

    photo_id: UUID
    attempt: int
    fence: int


async def claim_photo_job(connection: Connection, photo_id: UUID, worker: str) -> PhotoClaim | None:
    """pending → active, one attempt more; None when it is not pending or not due."""
    row = await connection.fetchrow(sql("photo_jobs/claim"), photo_id, worker)
    return None if row is None else PhotoClaim(photo_id, row["attempt"], row["attempt_id"])


async def renew_photo_jobs(connection: Connection, claims: Sequence[PhotoClaim]) -> set[UUID]:
    """Keep the leases; answers the photos whose job is still owned."""
    rows = await connection.fetch(
        sql("photo_jobs/renew"), [claim.photo_id for claim in claims], [claim.fence for claim in claims]
    )
    return {row["photo_id"] for row in rows}


async def finish_photo_job(connection: Connection, claim: PhotoClaim, *, error: str | None = None) -> bool:
    """done, or failed with an error; False when the attempt was superseded."""
    state = "done" if error is None else "failed"
    return bool(
        await connection.fetchval(sql("photo_jobs/finish"), claim.photo_id, claim.fence, state, error)
    )


async def put_back_photo_job(
    connection: Connection, claim: PhotoClaim, *, error: str | None, retry_after_seconds: float, charged: bool
) -> bool:
    """pending again, due after so many seconds; False when the attempt was superseded."""
    return bool(
        await connection.fetchval(
            sql("photo_jobs/put_back"), claim.photo_id, claim.fence, error, retry_after_seconds, int(charged)
        )
    )


async def due_photo_jobs(
    connection: Connection, *, limit: int, older_than_seconds: float
) -> list[tuple[UUID, UUID]]:
    """(photo, album) of pending jobs that are due and older than so many seconds."""
    rows = await connection.fetch(sql("photo_jobs/due"), limit, older_than_seconds)
    return [(row["photo_id"], row["album_id"]) for row in rows]


async def put_back_stale_photo_jobs(connection: Connection, *, limit: int) -> list[UUID]:
    """Active jobs whose lease was not renewed for five minutes are pending again; answers their photos."""
    rows = await connection.fetch(sql("photo_jobs/put_back_stale"), STALE_SECONDS, limit)
    return [row["photo_id"] for row in rows]


async def ring_photo(connection: Connection, photo_id: UUID, album_id: UUID, workspace_id: UUID) -> None:
    """An event that brings the photo's job into the queue (again); its job id keeps a live one single."""
    await photo_event(
        connection,
        "photo.uploaded",
        workspace_id,
        {"v": 1, "photoId": str(photo_id), "albumId": str(album_id)},
    )
