"""Which of the driver's errors say that PostgreSQL is away, so that nothing is charged."""

from __future__ import annotations

import asyncpg
import pytest

from lingxi.db.session import is_unavailable


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InterfaceError("connection is closed"),
        ConnectionResetError(),
    ],
)
def test_a_lost_connection_however_it_is_told(error: Exception) -> None:
    assert is_unavailable(error)


@pytest.mark.parametrize(
    "error", [asyncpg.DataError("out of range"), asyncpg.UniqueViolationError("taken"), ValueError("ours")]
)
def test_what_is_about_the_statement(error: Exception) -> None:
    assert not is_unavailable(error)
