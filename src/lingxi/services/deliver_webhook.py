"""What a delivery sends, and what became of it: for its endpoint, and for who looks at its deliveries."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.services.record_audit import record_audit
from lingxi.services.webhook_endpoints import disable_endpoint

# An endpoint is disabled when all of so many attempts or more failed, and the first of them so long ago. A delivery's ten
# attempts take more than that, so one event that never gets through is enough.
FAILING_ATTEMPTS: Final = 10
FAILING_SECONDS: Final = 72 * 3600.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A delivery that is to be made. `secrets`: those that sign, the present one first."""

    url: str
    enabled: bool
    secrets: tuple[str, ...]
    type: str
    body: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request. `code` is None for a success; `status` when nothing was answered."""

    code: str | None
    status: int | None
    response: str | None
    milliseconds: int


async def load_delivery(
    connection: Connection, workspace_id: UUID, endpoint_id: UUID, event_id: UUID
) -> Outgoing | None:
    """None when the workspace has no such delivery (any more)."""
    row = await connection.fetchrow(sql("webhooks/load"), workspace_id, endpoint_id, event_id)
    if row is None:
        return None
    secrets = (row["secret"], *filter(None, [row["previous_secret"]]))
    return Outgoing(row["url"], row["enabled"], secrets, row["type"], row["body"])


async def record_outcome(
    connection: Connection,
    workspace_id: UUID,
    endpoint_id: UUID,
    event_id: UUID,
    item: tuple[UUID, int],
    outcome: Outcome,
    *,
    gone: bool = False,
) -> bool:
    """Write it down; answers whether the endpoint is enabled after it. `gone`, or failures without end, disable it (audited)."""
    enabled = True
    if outcome.code is None:
        await connection.execute(sql("webhooks/works"), endpoint_id)
    else:
        row = await connection.fetchrow(sql("webhooks/fails"), endpoint_id)
        failing = row is not None and (
            row["failures"] >= FAILING_ATTEMPTS and row["failing_seconds"] >= FAILING_SECONDS
        )
        enabled = row is not None and row["enabled"] and not failing and not gone
        if row is not None and row["enabled"] and not enabled:
            reason, verb = ("gone", "webhook.gone") if gone else ("failing", "webhook.failing")
            await disable_endpoint(
                connection, workspace_id, endpoint_id, "gone" if reason == "gone" else "failing"
            )
            await record_audit(
                connection,
                workspace_id=workspace_id,
                actor=None,
                verb=verb,
                target=f"webhook:{endpoint_id}",
                request_id=None,
            )
    await connection.execute(
        sql("webhooks/record"),
        endpoint_id,
        event_id,
        *item,
        outcome.milliseconds,
        outcome.status,
        outcome.response,
        outcome.code,
    )
    return enabled
