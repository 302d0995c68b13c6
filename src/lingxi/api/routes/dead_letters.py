"""Dead letters: an admin sees and steers those of the workspace, an operator those of all."""

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
from lingxi.api.auth import Anyone, Steward
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.paging import DEFAULT_LIMIT, Cursors, CursorText, Limit
from lingxi.api.reading import read_json, read_nothing, refuse_unknown_query, validated
from lingxi.api.signing import Signer
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.services.dead_letters import (
    Event,
    discard,
    find_event,
    get_dead_letter,
    list_dead_letters,
    redrive,
)

router = APIRouter(prefix="/api/v1/dead-letters", tags=["Dead letters"])

_REDRIVE = TypeAdapter(shapes.Redrive)
_EXAMPLE: dict[str, Any] = {
    "id": 4711,
    "type": "photo.uploaded",
    "queue": "photo:process",
    "workspaceId": "3e8f4a43-2f10-4d4b-8f4b-2f9d1a7c6b5e",
    "taskId": None,
    "round": None,
    "items": 0,
    "payload": {"v": 1, "photoId": "not an id"},
    "attempts": 10,
    "error": "the payload's photoId is no UUID",
    "createdAt": "2026-12-01T10:00:00.000000Z",
}
_NOT_DEAD = Conflict("It is no dead letter any more: it was sent again, or discarded.")
LetterIdText = Annotated[str, Path(alias="deadLetterId", json_schema_extra={"pattern": "^[0-9]{1,18}$"})]


@router.get(
    "",
    **documented(
        summary="List dead letters, oldest first",
        meaning="Of the caller's workspace; an operator's token lists those of all.",
        answer=shapes.DeadLetterPage,
        example={"deadLetters": [_EXAMPLE], "nextCursor": None},
        errors=(*doc.AUTHENTICATED, doc.BAD_CURSOR, doc.BAD_QUERY),
    ),
)
async def list_(
    request: Request, caller: Steward, limit: Limit = DEFAULT_LIMIT, cursor: CursorText = None
) -> Response:
    refuse_unknown_query(request, ("limit", "cursor"))
    cursors = Cursors(Signer(deps_of(request).config.secret_keys), caller.workspace_id, "dead-letters", ())
    after = cursors.open(cursor)[0] if cursor is not None else None
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        found = await list_dead_letters(connection, caller.workspace_id, after=after, limit=limit + 1)
    page = found[:limit]
    next_cursor = cursors.seal([page[-1].id]) if len(found) > limit else None
    return json_answer({"deadLetters": [one.to_wire() for one in page], "nextCursor": next_cursor})


@router.get(
    "/{deadLetterId}",
    **documented(
        summary="Show a dead letter",
        answer=shapes.DeadLetter,
        example=_EXAMPLE,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND),
    ),
)
async def show(request: Request, caller: Steward, letter_id: LetterIdText) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        found = await get_dead_letter(connection, caller.workspace_id, _number(letter_id))
    if found is None:
        raise NotFound
    return json_answer(found.to_wire())


@router.post(
    "/{deadLetterId}/redrive",
    **documented(
        summary="Send a dead letter again",
        meaning="It is due now, as if it had never been tried. With a `payload`, that one is sent; what it names must be of the "
        "event's workspace.",
        answer=shapes.Handled,
        example={"id": 4711, "outcome": "redriven"},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _NOT_DEAD),
        body=shapes.Redrive,
        body_example={"payload": None},
        body_required=False,
    ),
)
async def send_again(request: Request, caller: Steward, letter_id: LetterIdText) -> Response:
    event = await _existing(request, caller, letter_id)
    asked = validated(_REDRIVE, await read_json(request)) if await request.body() else shapes.Redrive()
    return await _handle(
        request, caller, event, "redriven", lambda connection: redrive(connection, event, asked.payload)
    )


@router.post(
    "/{deadLetterId}/discard",
    **documented(
        summary="Give up a dead letter for good",
        meaning="It is never sent. Of a batch of items, those that still wait for it end as `failed`, with `dispatch_failed`.",
        answer=shapes.Handled,
        example={"id": 4711, "outcome": "discarded"},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _NOT_DEAD),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def give_up(request: Request, caller: Steward, letter_id: LetterIdText) -> Response:
    event = await _existing(request, caller, letter_id)
    await read_nothing(request)
    return await _handle(request, caller, event, "discarded", lambda connection: discard(connection, event))


async def _existing(request: Request, caller: Anyone, text: str) -> Event:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        return await find_event(connection, caller.workspace_id, _number(text))


async def _handle(
    request: Request,
    caller: Anyone,
    event: Event,
    outcome: str,
    step: Callable[[Connection], Awaitable[None]],
) -> Response:
    async def work(connection: Connection) -> Done:
        await step(connection)
        return Done(200, orjson.dumps({"id": event.id, "outcome": outcome}), f"event:{event.id}")

    changes: Changes = request.app.state.changes
    verb = {"redriven": "dead_letter.redrive", "discarded": "dead_letter.discard"}[outcome]
    change = Change(event.workspace_id, caller.token_id, verb, request.scope["request_id"])
    response = await changes.run(change, work)
    hints = deps_of(request).hints
    hints.publish_outbox()
    if event.task_id is not None:
        hints.publish_tasks([event.task_id])
    return response


def _number(text: str) -> int:
    """An event's id; NotFound for what can be none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise NotFound
    return int(text)
