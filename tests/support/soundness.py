"""After a test: do the rows that it left break what must always hold?"""

from __future__ import annotations

import asyncpg

from lingxi.services.check_invariants import Violation, check_invariants


async def violations(database_url: str) -> list[Violation]:
    """All rows that break an invariant."""
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return [violation async for violation in check_invariants(connection)]
    finally:
        await connection.close()
