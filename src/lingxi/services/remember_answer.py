"""Idempotency keys: the first answer to a key is stored by the transaction that did the work, and found by every later one.

The key's row is inserted first, so a second transaction with the same key waits for the first one. If that commits, its answer
is there; if it rolls back or its process dies, nothing is left and the second one does the work.
"""

from dataclasses import dataclass
from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection

REMEMBERED_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class KeyScope:
    """What a key belongs to: the same key under another workspace, method or full path is another key."""

    workspace_id: UUID
    method: str
    path: str
    key: str

    def parameters(self) -> tuple[UUID, str, str, str]:
        """In the order of the statements' parameters."""
        return (self.workspace_id, self.method, self.path, self.key)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer as it was first sent, and the digest of the body (32 bytes) that it answered."""

    body_sha256: bytes
    status: int
    headers: dict[str, str]
    body: bytes


async def reserve_key(connection: Connection, scope: KeyScope, body_sha256: bytes) -> bool:
    """Take the key for this transaction; False when an answer is remembered (`find_answer` has it)."""
    row = await connection.fetchval(
        sql("idempotency/reserve"), *scope.parameters(), body_sha256, float(REMEMBERED_SECONDS)
    )
    return row is not None


async def find_answer(connection: Connection, scope: KeyScope) -> StoredAnswer | None:
    """What is remembered of this key."""
    row = await connection.fetchrow(sql("idempotency/find"), *scope.parameters(), float(REMEMBERED_SECONDS))
    if row is None or row["status"] is None:
        return None
    return StoredAnswer(row["body_sha256"], row["status"], orjson.loads(row["headers"]), row["body"])


async def store_answer(
    connection: Connection, scope: KeyScope, *, status: int, headers: dict[str, str], body: bytes
) -> None:
    """Remember the answer, in the transaction that reserved the key."""
    await connection.execute(
        sql("idempotency/store"), *scope.parameters(), status, orjson.dumps(headers).decode(), body
    )
