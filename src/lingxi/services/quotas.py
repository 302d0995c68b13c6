"""Quotas: how much of a deployment one workspace may take: requests a minute, items that have not ended, stored bytes.

Rows in PostgreSQL. What a change adds is charged in its own transaction before anything else, under the lock of the workspace's
row, so that changes at once cannot pass a limit together. What was counted is only a bound (what ends is not taken off), which is
counted anew when it is old or reaches the limit: a refusal is always of what is there now.
"""

from dataclasses import astuple, dataclass
from typing import Literal
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import OverLimit

Kind = Literal["requests", "open_items", "stored_bytes"]
_OPEN_RETRY_SECONDS = 5
_STORED_RETRY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Limits:
    """0 is none."""

    requests_per_minute: int = 0
    open_items: int = 0
    stored_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """A workspace's own limits: None is the deployment's, 0 is none."""

    requests_per_minute: int | None = None
    open_items: int | None = None
    stored_bytes: int | None = None

    def over(self, defaults: Limits) -> Limits:
        """The limits that hold."""
        pairs = zip(astuple(self), astuple(defaults), strict=True)
        return Limits(*(default if own is None else own for own, default in pairs))


@dataclass(frozen=True, slots=True)
class Usage:
    """What a workspace has now."""

    open_items: int
    stored_bytes: int


class OverQuota(OverLimit):
    """OverLimit, of which `kind` says which limit it was."""

    def __init__(self, kind: Kind, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail, retry_after_seconds=retry_after_seconds)
        self.kind = kind


async def get_quota(connection: Connection, workspace_id: UUID) -> Quota:
    """What the workspace has of its own."""
    row = await connection.fetchrow(sql("quotas/get"), workspace_id)
    return Quota() if row is None else Quota(**dict(row))


async def set_quota(connection: Connection, workspace_id: UUID, quota: Quota) -> None:
    """In place of what it had. API processes heed it within five seconds."""
    await connection.execute(
        sql("quotas/set"), workspace_id, quota.requests_per_minute, quota.open_items, quota.stored_bytes
    )


async def read_usage(connection: Connection, workspace_id: UUID) -> Usage:
    """Counted now."""
    return Usage(
        await connection.fetchval(sql("quotas/count_open"), workspace_id),
        await connection.fetchval(sql("quotas/count_stored"), workspace_id),
    )


async def charge_open_items(connection: Connection, workspace_id: UUID, items: int, limit: int) -> None:
    """Before the items are written. OverQuota when more than `limit` (0: no limit) would not have ended."""
    if not limit:
        return
    if await connection.fetchval(sql("quotas/charge_open"), workspace_id, items, limit) is not None:
        return
    await connection.execute(sql("quotas/lock"), workspace_id)
    there: int = await connection.fetchval(sql("quotas/count_open"), workspace_id)
    if there + items > limit:
        why = f"The workspace may have {limit} items that have not ended; {there} have not, and {items} more would be too many."
        raise OverQuota("open_items", why, _OPEN_RETRY_SECONDS)
    await connection.execute(sql("quotas/counted_open"), workspace_id, there + items)


async def charge_stored_bytes(
    connection: Connection, workspace_id: UUID, size_bytes: int, limit: int
) -> None:
    """Before the bytes get a row. OverQuota when the workspace would store more than `limit` (0: no limit)."""
    if not limit or not size_bytes:
        return
    if await connection.fetchval(sql("quotas/charge_stored"), workspace_id, size_bytes, limit) is not None:
        return
    await connection.execute(sql("quotas/lock"), workspace_id)
    there: int = await connection.fetchval(sql("quotas/count_stored"), workspace_id)
    if there + size_bytes > limit:
        why = (
            f"The workspace may store {limit} bytes; it has {there}, and {size_bytes} more would be too many."
        )
        raise OverQuota("stored_bytes", why, _STORED_RETRY_SECONDS)
    await connection.execute(sql("quotas/counted_stored"), workspace_id, there + size_bytes)
