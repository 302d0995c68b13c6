"""Sign-in links: 256 random bits that sign one browser in, once, in the name of a token; stored as SHA-256."""

import secrets
from datetime import datetime
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.services.tokens import Token, hash_secret

LIFETIME_SECONDS = 600
PAGE = "/login#"
"""The page that takes a link: the secret stands behind `#`, so no server and no log ever sees it in an address."""


async def create_sign_in_link(
    connection: Connection, token_id: UUID, *, lifetime_seconds: float = LIFETIME_SECONDS
) -> tuple[str, datetime]:
    """A new link's secret, which can never be read again, and when it stops working."""
    secret = secrets.token_urlsafe(32)
    expires_at: datetime = await connection.fetchval(
        sql("sign_in_links/create"), hash_secret(secret), token_id, lifetime_seconds
    )
    return secret, expires_at


async def use_sign_in_link(connection: Connection, secret: str) -> Token | None:
    """The token in whose name one is signed in; None when the link is unknown, used or too old, or its token is revoked."""
    row = await connection.fetchrow(sql("sign_in_links/use"), hash_secret(secret))
    return None if row is None else Token(**dict(row))
