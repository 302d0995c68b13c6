"""The job of a photo's first publication: a row that one worker owns at a time, under a lease of five minutes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.services.publish_photo import fail_photo

STALE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class PhotoClaim:
    """An attempt of a photo's job that this worker owns. `age_seconds`: how long before the claim the photo was uploaded."""

    photo_id: UUID
    attempt: int
    fence: int
    age_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class DuePhoto:
    """A photo whose job waits; `mark` is its place among those that wait."""

    photo_id: UUID
    album_id: UUID
    mark: tuple[datetime, UUID]


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A photo's job as it is; `due_in_seconds` says when a pending one may be claimed."""

    state: str
    due_in_seconds: float


class Superseded(Exception):
    """The attempt does not own the photo's job any more."""


async def claim_photo_job(
    connection: Connection, photo_id: UUID, worker: str, *, again: bool = False
) -> PhotoClaim | None:
    """pending → active, one attempt more; None when it is not pending or not due.

    `again`: this worker has asked before and got no answer; what it was given then is given to it now.
    """
    row = await connection.fetchrow(sql("photo_jobs/claim"), photo_id, worker, again)
    return (
        None if row is None else PhotoClaim(photo_id, row["attempt"], row["attempt_id"], row["age_seconds"])
    )


async def renew_photo_jobs(connection: Connection, claims: Sequence[PhotoClaim]) -> set[UUID]:
    """Keep the leases; answers the photos whose job is still owned."""
    rows = await connection.fetch(
        sql("photo_jobs/renew"), [claim.photo_id for claim in claims], [claim.fence for claim in claims]
    )
    return {row["photo_id"] for row in rows}


async def look_at_photo_job(connection: Connection, photo_id: UUID) -> SeenJob | None:
    """The photo's job; None when there is no such photo."""
    row = await connection.fetchrow(sql("photo_jobs/look"), photo_id)
    return None if row is None else SeenJob(row["state"], row["due_in_seconds"])


async def finish_photo_job(connection: Connection, claim: PhotoClaim) -> bool:
    """active → done; False when the attempt was superseded."""
    return await _finish(connection, claim, "done", None, ())


async def fail_photo_job(
    connection: Connection, claim: PhotoClaim, code: str, lines: Sequence[str] = ()
) -> bool:
    """The last attempt failed: the job is failed, and the photo `processing_failed`, in one transaction of its own.

    False, and nothing of it happens, when the attempt was superseded.
    """
    try:
        async with connection.transaction():
            await fail_photo(connection, claim.photo_id, code)  # first: the lock order is album, photo, job
            if not await _finish(connection, claim, "failed", code, lines):
                raise Superseded
    except Superseded:
        return False
    return True


async def _finish(
    connection: Connection, claim: PhotoClaim, state: str, error: str | None, lines: Sequence[str]
) -> bool:
    return bool(
        await connection.fetchval(
            sql("photo_jobs/finish"), claim.photo_id, claim.fence, state, error, _stored(lines)
        )
    )


def _stored(lines: Sequence[str]) -> str | None:
    return orjson.dumps(list(lines)).decode() if lines else None


async def put_back_photo_job(
    connection: Connection,
    claim: PhotoClaim,
    *,
    error: str | None,
    retry_after_seconds: float,
    charged: bool,
    lines: Sequence[str] = (),
) -> bool:
    """pending again, due after so many seconds; False when the attempt was superseded."""
    return bool(
        await connection.fetchval(
            sql("photo_jobs/put_back"),
            claim.photo_id,
            claim.fence,
            error,
            retry_after_seconds,
            int(charged),
            _stored(lines),
        )
    )


async def due_photo_jobs(
    connection: Connection, *, after: tuple[datetime, UUID] | None, limit: int
) -> list[DuePhoto]:
    """Pending jobs that are due, oldest first; `after` is the `mark` of the last one of the page before."""
    created_at, photo_id = after or (None, None)
    rows = await connection.fetch(sql("photo_jobs/due"), limit, created_at, photo_id)
    return [DuePhoto(row["photo_id"], row["album_id"], (row["created_at"], row["photo_id"])) for row in rows]


async def put_back_stale_photo_jobs(
    connection: Connection, *, limit: int, worker: str | None = None
) -> list[UUID]:
    """Active jobs whose lease was not renewed for five minutes are pending again; answers their photos.

    With `worker`: those of that dead process at once. Their attempts stay charged.
    """
    rows = await connection.fetch(sql("photo_jobs/put_back_stale"), STALE_SECONDS, limit, worker)
    return [row["photo_id"] for row in rows]
