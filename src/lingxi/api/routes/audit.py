"""The audit log of the caller's workspace, page by page."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import audit_schemas as schemas
from lingxi.api import documented as doc
from lingxi.api.answers import json_answer
from lingxi.api.auth import Admin
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.paging import DEFAULT_LIMIT, Cursors, CursorText, Limit
from lingxi.api.reading import Moment, refuse_unknown_query
from lingxi.api.signing import Signer
from lingxi.services.read_audit import list_audit

router = APIRouter(prefix="/api/v1", tags=["Workspace"])

_EXAMPLE = {
    "id": "4711",
    "at": "2026-12-01T20:00:00.000000Z",
    "workspaceId": "0193a3f0-2b5c-4c3e-9d4f-1a2b3c4d5e6f",
    "actor": "5b0d7c1e-0a55-4f5b-9c53-3d8a6b1f7e20",
    "actorName": "ingest",
    "actorRole": "editor",
    "verb": "task.cancel",
    "target": "task:0193a3f0-2b5c-7c3e-9d4f-1a2b3c4d0000",
    "requestId": "9f86d081884c7d65",
}


@router.get(
    "/audit",
    **documented(
        summary="List the workspace's audit log, newest first",
        meaning="Every change that was made in it: who, what, to what, and when.",
        answer=schemas.AuditPage,
        example={"entries": [_EXAMPLE], "nextCursor": None},
        errors=(*doc.AUTHENTICATED, doc.BAD_CURSOR, doc.BAD_QUERY),
    ),
)
async def list_(
    request: Request,
    caller: Admin,
    limit: Limit = DEFAULT_LIMIT,
    cursor: CursorText = None,
    since: Annotated[Moment | None, Query(description="At or after.")] = None,
    until: Annotated[Moment | None, Query(description="Before.")] = None,
) -> Response:
    refuse_unknown_query(request, ("limit", "cursor", "since", "until"))
    deps = deps_of(request)
    bounds = [f"{since}", f"{until}"]
    cursors = Cursors(Signer(deps.config.secret_keys), caller.workspace_id, "audit", bounds)
    after: tuple[datetime, int] | None = None
    if cursor is not None:
        at, last = cursors.open(cursor)
        after = (datetime.fromisoformat(at), last)
    async with deps.pool.acquire(timeout=5) as connection:
        found = await list_audit(
            connection, caller.workspace_id, since=since, until=until, after=after, limit=limit + 1
        )
    page = found[:limit]
    more = len(found) > limit
    return json_answer(
        {
            "entries": [entry.to_wire() for entry in page],
            "nextCursor": cursors.seal([page[-1].at.isoformat(), page[-1].id]) if more else None,
        }
    )
