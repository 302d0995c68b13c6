"""Store when photos were first sent to a viewer."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.wire import time_to_wire


async def record_first_frames(
    connection: Connection, times: Mapping[UUID, datetime]
) -> dict[UUID, float | None]:
    """The first time of each photo stays. Answers the photos that have one now; those that somebody works on in this
    moment have not. With each the seconds that it came after the commit that published it; None when it had one before.
    """
    rows = await connection.fetch(
        sql("photos/set_first_frames"), list(times), [time_to_wire(at) for at in times.values()]
    )
    return {row["id"]: row["after_seconds"] for row in rows}
