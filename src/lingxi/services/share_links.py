"""Share links: 256 random bits that open one album, shown once, stored as SHA-256."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.services.tokens import hash_secret


@dataclass(frozen=True, slots=True)
class ShareLink:
    """A share link without its secret."""

    id: UUID
    album_id: UUID
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


async def create_share_link(
    connection: Connection, album_id: UUID, *, lifetime_seconds: float | None
) -> tuple[ShareLink, str]:
    """A new link and its secret, which can never be read again."""
    secret = secrets.token_urlsafe(32)
    row = await connection.fetchrow(
        sql("share_links/create"), uuid4(), album_id, hash_secret(secret), lifetime_seconds
    )
    assert row is not None
    return ShareLink(**dict(row)), secret


async def find_share_link(connection: Connection, secret: str) -> ShareLink | None:
    """The link; None when it is unknown, expired or revoked, or its album is deleted."""
    row = await connection.fetchrow(sql("share_links/find"), hash_secret(secret))
    return None if row is None else ShareLink(**dict(row))


async def valid_share_links(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Which of these may still be used, each with its album."""
    return {row["id"]: row["album_id"] for row in await connection.fetch(sql("share_links/still_valid"), ids)}


async def list_share_links(connection: Connection, album_id: UUID) -> list[ShareLink]:
    """The links of an album, oldest first."""
    return [ShareLink(**dict(row)) for row in await connection.fetch(sql("share_links/list"), album_id)]


async def revoke_share_link(connection: Connection, album_id: UUID, link_id: UUID) -> ShareLink | None:
    """Revoke it; again is the same. None when the album has none with this id."""
    row = await connection.fetchrow(sql("share_links/revoke"), album_id, link_id)
    return None if row is None else ShareLink(**dict(row))
