"""Operators pause, drain and resume queues."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import steering_schemas as shapes
from lingxi.api.answers import json_answer
from lingxi.api.auth import Operator
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import read_json, read_nothing, validated
from lingxi.db.session import Connection
from lingxi.domain.errors import NotFound
from lingxi.names import QUEUES
from lingxi.services.queue_holds import Hold, HoldState, hold_queue, list_holds, resume_queue

router = APIRouter(prefix="/api/v1/queues", tags=["Operator"])

_NEW_HOLD = TypeAdapter(shapes.NewHold)
_OPEN: dict[str, Any] = {"queue": "media:verify", "state": "open", "reason": None, "since": None}
_PAUSED: dict[str, Any] = {
    **_OPEN,
    "state": "paused",
    "reason": "bad disk",
    "since": "2026-12-01T10:00:00.000000Z",
}
QueueText = Annotated[str, Path(alias="queue", json_schema_extra={"enum": list(QUEUES)})]


def _to_wire(queue: str, hold: Hold | None) -> dict[str, Any]:
    return {**_OPEN, "queue": queue, **(hold.to_wire() if hold is not None else {})}


@router.get(
    "",
    **documented(
        summary="List queues, and who is held",
        answer=shapes.QueueList,
        example={"queues": [_PAUSED]},
        errors=doc.AUTHENTICATED,
    ),
)
async def list_(request: Request, caller: Operator) -> Response:
    deps = deps_of(request)
    async with deps.pool.acquire(timeout=5) as connection:
        holds = {hold.queue: hold for hold in await list_holds(connection)}
    return json_answer({"queues": [_to_wire(queue, holds.get(queue)) for queue in deps.config.queues]})


def _held(state: HoldState, example: dict[str, Any], summary: str, meaning: str) -> Any:
    return documented(
        summary=summary,
        meaning=meaning,
        answer=shapes.Queue,
        example=example,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body=shapes.NewHold,
        body_example={"reason": "bad disk"},
        body_required=False,
    )


@router.post(
    "/{queue}/pause",
    **_held(
        "paused", _PAUSED, "Pause a queue",
        "Nothing of it is sent, taken or claimed from now on; what runs goes on. A wiped Redis does not forget it. "
        "Again is the same.",
    ),
)  # fmt: skip
async def pause(request: Request, caller: Operator, queue: QueueText) -> Response:
    return await _hold(request, caller.token_id, queue, "paused")


@router.post(
    "/{queue}/drain",
    **_held(
        "draining", {**_PAUSED, "state": "draining"}, "Drain a queue",
        "Nothing more of it is sent; what was sent is finished, and when nothing is left it is paused. "
        "One that is paused stays so.",
    ),
)  # fmt: skip
async def drain(request: Request, caller: Operator, queue: QueueText) -> Response:
    return await _hold(request, caller.token_id, queue, "draining")


@router.post(
    "/{queue}/resume",
    **documented(
        summary="Resume a queue",
        meaning="What waits is sent and taken again, in its order. Again is the same.",
        answer=shapes.Queue,
        example=_OPEN,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def resume(request: Request, caller: Operator, queue: QueueText) -> Response:
    _known(request, queue)
    await read_nothing(request)

    async def step(connection: Connection) -> None:
        await resume_queue(connection, queue)

    response = await _run(request, caller.token_id, queue, "queue.resume", step)
    deps_of(request).hints.publish_outbox()
    return response


async def _hold(request: Request, token_id: Any, queue: str, state: HoldState) -> Response:
    _known(request, queue)
    asked = validated(_NEW_HOLD, await read_json(request)) if await request.body() else shapes.NewHold()

    async def step(connection: Connection) -> Hold:
        return await hold_queue(connection, queue, state, asked.reason)

    verb = {"paused": "queue.pause", "draining": "queue.drain"}[state]
    return await _run(request, token_id, queue, verb, step)


async def _run(
    request: Request,
    token_id: Any,
    queue: str,
    verb: str,
    step: Callable[[Connection], Awaitable[Hold | None]],
) -> Response:
    async def work(connection: Connection) -> Done:
        return Done(200, orjson.dumps(_to_wire(queue, await step(connection))), f"queue:{queue}")

    changes: Changes = request.app.state.changes
    return await changes.run(Change(None, token_id, verb, request.scope["request_id"]), work)


def _known(request: Request, queue: str) -> None:
    if queue not in deps_of(request).config.queues:
        raise NotFound
