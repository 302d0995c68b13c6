"""Webhook endpoints of a workspace. Their secrets sign what is sent, so they are kept readable, and shown once."""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record

MAX_ENDPOINTS: Final = 50  # of a workspace

DisabledReason = Literal["asked", "gone", "failing"]


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """An endpoint without its secrets. `failures`: attempts that failed since the last success, from `failing_since` on."""

    id: UUID
    url: str
    events: tuple[str, ...]
    description: str
    enabled: bool
    disabled_at: datetime | None
    disabled_reason: DisabledReason | None
    failures: int
    failing_since: datetime | None
    rotating_until: datetime | None
    created_at: datetime


async def create_endpoint(
    connection: Connection, workspace_id: UUID, *, url: str, events: Sequence[str], description: str
) -> tuple[WebhookEndpoint, str] | None:
    """A new endpoint and its secret (whsec_…); None when the workspace has MAX_ENDPOINTS. `url` was checked."""
    secret = new_secret()
    row = await connection.fetchrow(
        sql("webhooks/create"),
        uuid4(),
        workspace_id,
        url,
        list(dict.fromkeys(events)),
        description,
        secret,
        MAX_ENDPOINTS,
    )
    return None if row is None else (_endpoint_of(row), secret)


async def list_endpoints(connection: Connection, workspace_id: UUID) -> list[WebhookEndpoint]:
    """All of a workspace, oldest first."""
    return [_endpoint_of(row) for row in await connection.fetch(sql("webhooks/list"), workspace_id)]


async def get_endpoint(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID
) -> WebhookEndpoint | None:
    """None when the workspace has none with this id; so do all below."""
    return _found(await connection.fetchrow(sql("webhooks/get"), workspace_id, endpoint_id))


async def hold_endpoint(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID
) -> WebhookEndpoint | None:
    """The same, and nobody else changes it before the end of this transaction."""
    return _found(await connection.fetchrow(sql("webhooks/hold"), workspace_id, endpoint_id))


async def change_endpoint(
    connection: Connection,
    workspace_id: UUID,
    endpoint_id: UUID,
    *,
    url: str | None,
    events: Sequence[str] | None,
    description: str | None,
) -> WebhookEndpoint | None:
    """What is None stays. `url` was checked."""
    wanted = None if events is None else list(dict.fromkeys(events))
    return _found(
        await connection.fetchrow(sql("webhooks/change"), workspace_id, endpoint_id, url, wanted, description)
    )


async def enable_endpoint(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID
) -> WebhookEndpoint | None:
    """From the next event on it is sent to; its failures are forgotten."""
    return _found(await connection.fetchrow(sql("webhooks/enable"), workspace_id, endpoint_id))


async def disable_endpoint(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID, reason: DisabledReason
) -> WebhookEndpoint | None:
    """Nothing is sent to it any more. One that is disabled keeps its reason."""
    return _found(await connection.fetchrow(sql("webhooks/disable"), workspace_id, endpoint_id, reason))


async def rotate_secret(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID, *, overlap_seconds: float
) -> tuple[WebhookEndpoint, str] | None:
    """A new secret; the one before signs beside it for `overlap_seconds`."""
    secret = new_secret()
    row = await connection.fetchrow(
        sql("webhooks/rotate"), workspace_id, endpoint_id, secret, overlap_seconds
    )
    return None if row is None else (_endpoint_of(row), secret)


async def delete_endpoint(connection: Connection, workspace_id: UUID, endpoint_id: UUID) -> UUID | None:
    """It and its deliveries are gone; what waits for it fails."""
    deleted: UUID | None = await connection.fetchval(sql("webhooks/delete"), workspace_id, endpoint_id)
    return deleted


def new_secret() -> str:
    """256 random bits, as Standard Webhooks writes them."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _found(row: Record | None) -> WebhookEndpoint | None:
    return None if row is None else _endpoint_of(row)


def _endpoint_of(row: Record) -> WebhookEndpoint:
    return WebhookEndpoint(
        id=row["id"],
        url=row["url"],
        events=tuple(row["events"]),
        description=row["description"],
        enabled=row["enabled"],
        disabled_at=row["disabled_at"],
        disabled_reason=row["disabled_reason"],
        failures=row["failures"],
        failing_since=row["failing_since"],
        rotating_until=row["previous_until"],
        created_at=row["created_at"],
    )
