"""Keep the leases of running attempts, up to their deadlines."""

from collections.abc import Sequence
from datetime import timedelta

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.services.claim_items import ItemKey


async def renew_leases(
    connection: Connection, held: Sequence[tuple[ItemKey, int]], *, lease_seconds: float
) -> set[tuple[ItemKey, int]]:
    """Renew the leases of attempts (item, fence); answers those still owned. The rest was superseded or is too late."""
    rows = await connection.fetch(
        sql("items/renew"),
        [key.task_id for key, _ in held],
        [key.position for key, _ in held],
        [fence for _, fence in held],
        timedelta(seconds=lease_seconds),
    )
    return {(ItemKey(row["task_id"], row["position"]), row["fence"]) for row in rows}
