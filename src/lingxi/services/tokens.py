"""Tokens: 256 random bits, shown once, stored as SHA-256; each carries a role and a workspace.

An operator's and a worker's belong to no workspace.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record

PREFIX = "lx_"
ROLES = ("viewer", "editor", "admin", "operator", "worker")


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret."""

    id: UUID
    workspace_id: UUID | None
    role: str
    name: str
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


def _token(row: Record) -> Token:
    return Token(**dict(row))


def hash_secret(secret: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


async def create_token(
    connection: Connection,
    *,
    workspace_id: UUID | None,
    role: str,
    name: str,
    lifetime_seconds: float | None = None,
) -> tuple[Token, str]:
    """A new token and its secret, which can never be read again."""
    secret = PREFIX + secrets.token_urlsafe(32)
    row = await connection.fetchrow(
        sql("tokens/create"), uuid4(), workspace_id, role, name, hash_secret(secret), lifetime_seconds
    )
    assert row is not None
    return _token(row), secret


async def find_token(connection: Connection, secret: str) -> Token | None:
    """The token, or None when it is unknown, expired or revoked."""
    row = await connection.fetchrow(sql("tokens/find"), hash_secret(secret))
    return None if row is None else _token(row)


async def revoke_token(
    connection: Connection, token_id: UUID, *, workspace_id: UUID | None = None
) -> Token | None:
    """Revoke a token of a workspace (None: any); again is the same. None when there is no such token."""
    row = await connection.fetchrow(sql("tokens/revoke"), token_id, workspace_id)
    return None if row is None else _token(row)


async def rotate_token(
    connection: Connection, token_id: UUID, *, workspace_id: UUID | None = None, overlap_seconds: float = 0.0
) -> tuple[Token, str] | None:
    """Another token in its place, with the same role, name and lifetime, and its secret; the old one holds for the overlap.

    None when the workspace (None: any) has none like that which holds.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    row = await connection.fetchrow(
        sql("tokens/rotate"), token_id, workspace_id, uuid4(), hash_secret(secret), overlap_seconds
    )
    return None if row is None else (_token(row), secret)


async def list_tokens(connection: Connection, workspace_id: UUID | None = None) -> list[Token]:
    """The tokens of a workspace, or all."""
    return [_token(row) for row in await connection.fetch(sql("tokens/list"), workspace_id)]


async def still_valid(connection: Connection, token_ids: Sequence[UUID]) -> set[UUID]:
    """Which of these may still be used."""
    return {row["id"] for row in await connection.fetch(sql("tokens/still_valid"), token_ids)}
