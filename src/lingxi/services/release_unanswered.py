"""Give back what a worker claimed without learning of it: the commit went through, its answer was lost on the way."""

from collections.abc import Sequence

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.decide import Decision
from lingxi.services.claim_items import ItemKey
from lingxi.services.finish_items import Ending, finish_items


async def release_unanswered(
    connection: Connection, keys: Sequence[ItemKey], *, worker: str, known: Sequence[int]
) -> int:
    """Of `keys`, release (uncharged) those that `worker` owns by other fences than the `known` ones. How many there were."""
    rows = await connection.fetch(
        sql("items/owned"), [key.task_id for key in keys], [key.position for key in keys], worker, known
    )
    released = Decision("released")
    endings = [Ending(ItemKey(row["task_id"], row["position"]), row["attempt_id"], released) for row in rows]
    if endings:
        await finish_items(connection, endings)
    return len(endings)
