"""Which tokens and share links that streams were opened with may still be used."""

from collections.abc import Hashable, Sequence
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


async def valid_grants(connection: Connection, grants: Sequence[Hashable]) -> set[Hashable]:
    """Those that still hold, in one statement. A grant is a token's id, or ("share", the link's id)."""
    tokens = [grant for grant in grants if isinstance(grant, UUID)]
    shares = [grant[1] for grant in grants if isinstance(grant, tuple)]
    rows = await connection.fetch(sql("access/still_valid"), tokens, shares)
    return {("share", row["id"]) if row["is_share"] else row["id"] for row in rows}
