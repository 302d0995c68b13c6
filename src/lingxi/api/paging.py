"""Pages: `limit`, and an opaque signed cursor that says where the last page ended.

A cursor names a place between two rows, not a count of rows, so pages neither repeat nor skip while rows arrive. It is bound
to workspace, route and filters: any other use is a bad cursor (40001), also with another workspace's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import Query

from lingxi.api.signing import Signer
from lingxi.domain.errors import MalformedRequest

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
_MAX_CURSOR_CHARACTERS = 1000

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows of the page, at most.")]
CursorText = Annotated[
    str | None, Query(description="`nextCursor` of the page before, with the same filters.")
]


@dataclass(frozen=True, slots=True)
class Cursors:
    """Makes and reads the cursors of one listing: one workspace, one route, one set of filters."""

    signer: Signer
    workspace_id: UUID | None
    route: str
    filters: Sequence[str]

    def _bound_to(self) -> list[str]:
        return [str(self.workspace_id), self.route, *self.filters]

    def seal(self, place: Sequence[str | int]) -> str:
        """The cursor of a place: the sort key of the last row that was shown."""
        return self.signer.seal("cursor", orjson.dumps(place), self._bound_to())

    def open(self, cursor: str) -> list[Any]:
        """The place; MalformedRequest (40001) for a cursor that is garbage or belongs elsewhere."""
        if len(cursor) <= _MAX_CURSOR_CHARACTERS:
            payload = self.signer.open("cursor", cursor, self._bound_to())
            if payload is not None:
                return list(orjson.loads(payload))
        raise MalformedRequest("cursor: it is not one that this listing gave out.")
