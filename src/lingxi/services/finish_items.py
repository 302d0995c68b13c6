"""End attempts: many in one round trip, each behind its fence."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.decide import Decision
from lingxi.services.claim_items import ItemKey

Verdict = Literal["accepted", "already", "superseded"]


class Ending(NamedTuple):
    """What became of one attempt."""

    key: ItemKey
    fence: int
    decision: Decision


class Finished(NamedTuple):
    """What the database says of it, and the state that the item is in."""

    verdict: Verdict
    state: str


async def finish_items(
    connection: Connection, endings: Sequence[Ending]
) -> dict[tuple[ItemKey, int], Finished]:
    """Write the endings; answers by item and fence. An item that is gone (pruned) is not answered."""
    decisions = [ending.decision for ending in endings]
    rows = await connection.fetch(
        sql("items/finish"),
        [ending.key.task_id for ending in endings],
        [ending.key.position for ending in endings],
        [ending.fence for ending in endings],
        [decision.outcome for decision in decisions],
        [decision.result for decision in decisions],
        [decision.error_code for decision in decisions],
        [decision.error_message for decision in decisions],
        [decision.error_retryable for decision in decisions],
        [decision.delay_seconds for decision in decisions],
    )
    return {
        (ItemKey(row["task_id"], row["position"]), row["fence"]): Finished(row["verdict"], row["state"])
        for row in rows
    }
