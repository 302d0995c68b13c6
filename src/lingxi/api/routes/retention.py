"""An operator sees what is kept for how long, and has what is older removed now; workers do so by themselves."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import steering_schemas as shapes
from lingxi.api.answers import json_answer
from lingxi.api.auth import Operator
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import read_nothing, refuse_unknown_query
from lingxi.db.session import transaction
from lingxi.services.record_audit import record_audit
from lingxi.services.retention import KINDS, Retention, count_prunable, prune_steps

router = APIRouter(prefix="/api/v1/retention", tags=["Operator"])

_STEPS: Final = 10  # of each kind, each of some hundred rows: a request takes seconds at most
_ROWS: dict[str, int] = {
    "tasks": 12,
    "items": 3_400,
    "events": 5_000,
    "webhooks": 0,
    "audit": 0,
    "objects": 0,
    "keys": 80,
}


def _kept(retention: Retention, rows: Mapping[str, int]) -> dict[str, Any]:
    """The answer; items are kept as long as their tasks."""
    seconds = retention.seconds()
    seconds["items"] = seconds["tasks"]
    return {"kept": [{"kind": kind, "keptSeconds": seconds[kind], "rows": rows[kind]} for kind in KINDS]}


@router.get(
    "",
    **documented(
        summary="Show what is kept for how long, and how much is older now",
        meaning="The periods are settings (`RETENTION_…_DAYS`). What is older goes within minutes, by the workers.",
        answer=shapes.RetentionList,
        example=_kept(Retention(), _ROWS),
        errors=doc.AUTHENTICATED,
    ),
)
async def show(request: Request, caller: Operator) -> Response:
    refuse_unknown_query(request, ())
    deps = deps_of(request)
    async with deps.pool.acquire(timeout=5) as connection:
        rows = await count_prunable(connection, deps.config.retention)
    return json_answer(_kept(deps.config.retention, rows))


@router.post(
    "/prune",
    **documented(
        summary="Remove some of what is older than it is kept, now",
        meaning="In small transactions, the oldest first; what lives is never touched, however old it is.",
        answer=shapes.Pruned,
        example={"removed": _ROWS, "left": dict.fromkeys(KINDS, 0)},
        errors=(*doc.AUTHENTICATED, *doc.WITH_BODY),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def prune(request: Request, caller: Operator) -> Response:
    await read_nothing(request)
    deps = deps_of(request)
    removed = dict.fromkeys(KINDS, 0)
    async for kind, number in prune_steps(deps.pool, deps.config.retention, most=_STEPS):
        removed[kind] += number
    async with transaction(deps.pool, acquire_timeout_seconds=5) as connection:
        await record_audit(
            connection, workspace_id=None, actor=caller.token_id, verb="prune", target=f"rows:{sum(removed.values())}",
            request_id=request.scope["request_id"],
        )  # fmt: skip
    async with deps.pool.acquire(
        timeout=5
    ) as connection:  # after the audit row's commit: counting may take too long
        left = await count_prunable(connection, deps.config.retention)
    return json_answer({"removed": removed, "left": left})
