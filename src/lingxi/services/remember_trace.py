"""The trace that a task or a photo belongs to, for the processes that go on with it."""

from collections.abc import Sequence
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.observability import tracing


async def remember_trace(connection: Connection, subject: UUID) -> None:
    """That what was written for `subject` in this transaction belongs to the current trace; nothing while none is recorded."""
    if (traceparent := tracing.current()) is not None:
        await connection.execute(sql("traces/remember"), subject, traceparent)


async def find_traces(connection: Connection, subjects: Sequence[UUID]) -> dict[UUID, str]:
    """Their traceparents, of those that have one."""
    rows = await connection.fetch(sql("traces/find"), subjects)
    return {row["subject"]: row["traceparent"] for row in rows}
