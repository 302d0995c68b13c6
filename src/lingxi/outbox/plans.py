"""The dispatcher has told that tasks ended: where that was a round of canaries, the rest follows at once."""

from collections.abc import Sequence
from uuid import UUID

from lingxi.db.session import Connection
from lingxi.observability import failpoints
from lingxi.services.retry_plans import advance_retry_plans


async def follow_canaries(connection: Connection, ended: Sequence[UUID]) -> bool:
    """In a transaction of its own. Was something planned for one of them? What is missed here, a sweep finds."""
    if not ended:
        return False
    async with connection.transaction():
        decided = await advance_retry_plans(connection, ended)
        if decided:
            await failpoints.reach("outbox.before_plan")
    return bool(decided)
