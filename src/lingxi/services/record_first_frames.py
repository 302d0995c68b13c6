"""Store when photos were first sent to a viewer."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.wire import time_to_wire


async def record_first_frames(connection: Connection, times: Mapping[UUID, datetime]) -> None:
    """The first time of each photo stays; a photo that is being worked on in this moment is left out."""
    await connection.execute(
        sql("photos/set_first_frames"), list(times), [time_to_wire(at) for at in times.values()]
    )
