"""The audit log of a workspace over HTTP, with an admin's token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from lingxi.client.model import Json

if TYPE_CHECKING:
    from lingxi.client.transport import Transport

_PAGE_ROWS = 500


async def read_audit(
    transport: Transport, *, since: str | None = None, until: str | None = None
) -> AsyncIterator[Json]:
    """Every entry, newest first, a page at a time; `since` and `until` are times as on the wire."""
    given = {"since": since, "until": until}
    filters = {name: value for name, value in given.items() if value is not None}
    cursor: str | None = None
    while True:
        page = await transport.page("audit", "entries", _PAGE_ROWS, cursor, filters)
        for entry in page.rows:
            yield entry
        if (cursor := page.next_cursor) is None:
            return
