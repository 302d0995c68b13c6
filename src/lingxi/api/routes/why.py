"""Why does it wait, why did it fail: of a task, an item, a photo. One answer, in a word and in a sentence."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api.answers import json_answer
from lingxi.api.auth import Viewer
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.documented import documented
from lingxi.api.monitor import within
from lingxi.api.reading import TaskIdText, id_of, task_id_of
from lingxi.api.why_schemas import WhyAnswer
from lingxi.broker.errors import BrokerError
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.lock import is_dispatch_locked
from lingxi.domain.errors import NotFound
from lingxi.domain.ids import split_item_id
from lingxi.domain.wire import Attempt, attempt_to_wire, problem_to_wire
from lingxi.names import PHOTO_QUEUE
from lingxi.observability.metrics import COLLECT_SECONDS
from lingxi.services.attempt_lines import lines_of_attempts
from lingxi.services.retry_plans import PlannedCause, plan_of_task
from lingxi.services.why import (
    Live,
    Reason,
    Why,
    attempts_of_photo,
    judge_item,
    judge_photo,
    sentence_of_task,
    why_item,
    why_photo,
    why_task,
    with_attempts,
)

router = APIRouter(prefix="/api/v1", tags=["Why"])

ItemIdText = Annotated[
    str, Path(alias="itemId", description="The item's id.", json_schema_extra={"format": "uuid"})
]
PhotoIdText = Annotated[
    str, Path(alias="photoId", description="The photo's id.", json_schema_extra={"format": "uuid"})
]


_ID = "0193a3f0-2b5c-7c3e-9d4f-1a2b3c4d0000"
_EXAMPLE: dict[str, Any] = {
    "id": _ID,
    "kind": "task",
    "state": "partially_failed",
    "queue": "media:verify",
    "reason": "failed",
    "sentence": "100 items: 97 succeeded, 3 failed. Failed: 3 × checksum_mismatch.",
    "canRetry": False,
    "error": None,
    "ahead": None,
    "aheadOwn": None,
    "attempts": [],
    "causes": [
        {"state": "succeeded", "code": None, "message": None, "canRetry": None, "items": 97, "firstIndex": 0},
        {
            "state": "failed",
            "code": "checksum_mismatch",
            "message": "The file does not have the SHA-256 that was expected.",
            "canRetry": False,
            "items": 3,
            "firstIndex": 16,
        },
    ],
    "plan": [],
}
_MEANING = (
    "What it waits for (a paused queue, a worker, a dispatcher, Redis, its turn, a cap, its next attempt), or why it failed "
    "and whether a retry can help."
)


@router.get(
    "/media-tasks/{taskId}/why",
    **documented(
        summary="Why does a task wait, or why did it fail?",
        meaning=_MEANING,
        answer=WhyAnswer,
        example=_EXAMPLE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def task(request: Request, caller: Viewer, task_id: TaskIdText) -> Response:
    deps, found_id = deps_of(request), task_id_of(task_id)
    async with deps.pool.acquire(timeout=5) as connection:
        found = await why_task(connection, caller.workspace_id, found_id)
        if found is None:
            raise NotFound
        plan = await plan_of_task(connection, found_id)
        waiting = [cause.first_index for cause in found.causes if cause.state in ("queued", "retrying")]
        row = None
        if waiting:
            row = await why_item(connection, caller.workspace_id, found_id, min(waiting) + 1)
    first = None if row is None else judge_item(row, await _live(deps, found.queue))
    states = {cause.state for cause in found.causes}
    ended: Reason = next(
        one
        for one in ("running", "failed", "cancelled", "succeeded", "next")
        if one in states or one == "next"
    )
    failed = [cause.can_retry for cause in found.causes if cause.state == "failed"]
    whole = Why(
        found.status,
        first.reason if first else ended,
        sentence_of_task(found, first),
        found.queue,
        any(failed) if failed else None,
        ahead=first.ahead if first else None,
        ahead_own=first.ahead_own if first else None,
    )
    causes = [
        {
            "state": cause.state,
            "code": cause.code,
            "message": cause.message,
            "canRetry": cause.can_retry,
            "items": cause.items,
            "firstIndex": cause.first_index,
        }
        for cause in found.causes
    ]
    return _answer(found_id, "task", whole, causes, plan)


@router.get(
    "/media-tasks/{taskId}/items/{itemId}/why",
    **documented(
        summary="Why does an item wait, or why did it fail?",
        meaning=_MEANING,
        answer=WhyAnswer,
        example={
            **_EXAMPLE,
            "id": _ID[:-1] + "1",
            "kind": "item",
            "state": "queued",
            "reason": "noWorker",
            "sentence": "No worker of media:verify is heard: start one with QUEUE=media.",
            "canRetry": None,
            "ahead": 0,
            "aheadOwn": 0,
            "causes": [],
        },
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def item(request: Request, caller: Viewer, task_id: TaskIdText, item_id: ItemIdText) -> Response:
    deps, found_id = deps_of(request), id_of(item_id)
    of_task, position = split_item_id(found_id)
    if of_task != task_id_of(task_id):
        raise NotFound
    async with deps.pool.acquire(timeout=5) as connection:
        row = await why_item(connection, caller.workspace_id, of_task, position)
        if row is None:
            raise NotFound
        whole = await with_attempts(connection, row)
        lines = await lines_of_attempts(connection, of_task, position)
    why = judge_item(row, await _live(deps, row["type"]), whole)
    return _answer(found_id, "item", why, attempts=whole.attempts or (), lines=lines)


@router.get(
    "/photos/{photoId}/why",
    **documented(
        summary="Why is a photo not shown yet, or why could it not be processed?",
        meaning=_MEANING,
        answer=WhyAnswer,
        example={
            **_EXAMPLE,
            "kind": "photo",
            "state": "ready",
            "queue": "photo:process",
            "reason": "succeeded",
            "sentence": "It is processed, and published.",
            "canRetry": None,
            "causes": [],
        },
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def photo(request: Request, caller: Viewer, photo_id: PhotoIdText) -> Response:
    deps, found_id = deps_of(request), id_of(photo_id)
    async with deps.pool.acquire(timeout=5) as connection:
        row = await why_photo(connection, caller.workspace_id, found_id)
        if row is None:
            raise NotFound
        attempts, lines = await attempts_of_photo(connection, found_id)
    why = judge_photo(row, await _live(deps, PHOTO_QUEUE))
    return _answer(found_id, "photo", why, attempts=attempts, lines=lines)


async def _live(deps: ApiDeps, queue: str) -> Live:
    """What Redis says now, within bounds."""

    async def read() -> Live:
        ages, held = await asyncio.gather(
            Heartbeats(deps.redis).ages([queue]), is_dispatch_locked(deps.redis)
        )
        return Live(True, ages[queue], held)

    try:
        return await within(read, COLLECT_SECONDS)
    except (BrokerError, TimeoutError):
        return Live(False, None, False)


def _answer(
    found_id: Any,
    kind: str,
    why: Why,
    causes: Sequence[dict[str, Any]] = (),
    plan: Sequence[PlannedCause] = (),
    *,
    attempts: Sequence[Attempt] = (),
    lines: Sequence[Sequence[str]] = (),
) -> Response:
    return json_answer(
        {
            "id": str(found_id),
            "kind": kind,
            "state": why.state,
            "queue": why.queue,
            "reason": why.reason,
            "sentence": why.sentence,
            "canRetry": why.can_retry,
            "error": problem_to_wire(why.error),
            "ahead": why.ahead,
            "aheadOwn": why.ahead_own,
            "attempts": [
                attempt_to_wire(attempt) | {"logLines": lines[place] if place < len(lines) else []}
                for place, attempt in enumerate(attempts)
            ],
            "causes": list(causes),
            "plan": [
                {
                    "code": one.code,
                    "canaryIndex": one.canary_index,
                    "rest": one.rest,
                    "state": one.state,
                    "sentence": one.sentence,
                }
                for one in plan
            ],
        }
    )
