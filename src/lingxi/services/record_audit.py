"""Every changing request that succeeds leaves one row, in its own transaction."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


async def record_audit(
    connection: Connection,
    *,
    workspace_id: UUID | None,
    actor: UUID | None,
    verb: str,
    target: str,
    request_id: str | None,
) -> None:
    """`actor` is the token's id; None stands for the command line beside the database."""
    await connection.execute(sql("audit/insert"), workspace_id, actor, verb, target, request_id)
