"""Uploads that go straight to storage: an address is signed, the client puts its bytes there, and confirms.

The address takes only the size that was announced. It stays good until it expires, so what it wrote is never used as it lies: a
confirmation copies it to a key that no address leads to.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.errors import Conflict, NotFound
from lingxi.storage import SignedRequest, Storage

INCOMING = "incoming/"
LIFETIME_SECONDS = 900
REMEMBERED_SECONDS = 86_400.0  # a confirmation may be repeated for so long


@dataclass(frozen=True, slots=True)
class DirectUpload:
    """A row of direct_uploads. `album_id`: of the album whose photo it becomes; None: it becomes the object `name`."""

    id: UUID
    workspace_id: UUID
    album_id: UUID | None
    name: str
    size_bytes: int
    sha256: bytes | None
    storage_key: str
    photo_id: UUID | None
    confirmed_at: datetime | None
    expires_at: datetime

    @classmethod
    def from_record(cls, row: Record) -> "DirectUpload":
        """From a row of the statements in `queries/direct_uploads/`."""
        return cls(**{name: row[name] for name in cls.__slots__})


async def sign_direct_upload(storage: Storage, size_bytes: int) -> tuple[UUID, SignedRequest]:
    """A new upload's id and the request that its client makes. Conflict where storage has no addresses."""
    upload_id = uuid4()
    signed = await storage.signed_put(
        f"{INCOMING}{upload_id.hex}", size_bytes=size_bytes, lifetime_seconds=LIFETIME_SECONDS
    )
    if signed is None:
        raise Conflict(
            "Files of this server lie in a folder, which takes no direct uploads: send the bytes to the API."
        )
    return upload_id, signed


async def begin_direct_upload(
    connection: Connection,
    upload_id: UUID,
    workspace_id: UUID,
    name: str,
    *,
    size_bytes: int,
    sha256: bytes | None = None,
    album_id: UUID | None = None,
) -> DirectUpload:
    """Remember what was signed."""
    row = await connection.fetchrow(
        sql("direct_uploads/begin"),
        upload_id,
        workspace_id,
        album_id,
        name,
        size_bytes,
        sha256,
        f"{INCOMING}{upload_id.hex}",
        float(LIFETIME_SECONDS),
    )
    assert row is not None
    return DirectUpload.from_record(row)


async def get_direct_upload(connection: Connection, workspace_id: UUID, upload_id: UUID) -> DirectUpload:
    """NotFound when the workspace has none with this id, or it was forgotten."""
    row = await connection.fetchrow(sql("direct_uploads/get"), workspace_id, upload_id)
    if row is None:
        raise NotFound
    return DirectUpload.from_record(row)


async def expire_direct_uploads(connection: Connection, *, limit: int) -> int:
    """Forget those that can no longer be confirmed; answers how many."""
    return int(await connection.fetchval(sql("direct_uploads/expire"), REMEMBERED_SECONDS, limit))
