"""The task protocol: submit, list, show, items, cancel, retry-failed. The event stream is in `stream.py`."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import product
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Query
from pydantic import WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples, schemas
from lingxi.api.answers import json_answer
from lingxi.api.auth import Caller, Editor, Viewer
from lingxi.api.changes import Change, Changes, Done, idempotency_key
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.documented import documented
from lingxi.api.eta import eta_of
from lingxi.api.json_body import canonical_digest, parse
from lingxi.api.paging import DEFAULT_LIMIT, Cursors, CursorText, Limit
from lingxi.api.reading import (
    Moment,
    TaskIdText,
    nothing_with_key,
    off_loop,
    read_body,
    refuse_unknown_query,
    task_id_of,
)
from lingxi.api.retry_choice import read_choice
from lingxi.api.signing import Signer
from lingxi.api.submission import check_submission
from lingxi.api.why_schemas import RetryChoice
from lingxi.db.session import Connection
from lingxi.domain.errors import FieldError, LingxiError, NotFound, SchemaError
from lingxi.domain.wire import Task, item_to_wire, task_to_wire
from lingxi.names import QUEUES
from lingxi.services.cancel_task import cancel_task
from lingxi.services.read_tasks import TaskFilter, get_task, list_items, list_tasks
from lingxi.services.remember_answer import KeyScope
from lingxi.services.retry_failed import retry_failed
from lingxi.services.submit_task import NewTask, submit_task

router = APIRouter(prefix="/api/v1", tags=["Tasks"])

_METADATA = "metadata."
_MAX_METADATA_FILTERS = 4
_METADATA_PARAMETER = {
    "name": "metadata",
    "in": "query",
    "description": f"`metadata.<key>=<value>`, at most {_MAX_METADATA_FILTERS}: only tasks whose metadata has "
    "this member with this text, number or boolean.",
    "style": "form",
    "explode": True,
    "schema": {
        "type": "object",
        "propertyNames": {"pattern": r"^metadata\.[A-Za-z0-9_-]{1,50}$"},
        "additionalProperties": {"type": "string", "maxLength": 100, "pattern": "^[ -~]*$"},
        "maxProperties": _MAX_METADATA_FILTERS,
    },
}

TypeName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(QUEUES)})]


# ── submit ───────────────────────────────────────────────────────────────────────────────────────────────
@router.post(
    "/media-tasks",
    **documented(
        summary="Submit a batch",
        status=202,
        meaning="Accepted: it is stored, and will be run.",
        answer=schemas.Task,
        example=examples.SUBMITTED,
        headers={**doc.LOCATION_HEADER, **doc.REPLAYED_HEADER},
        errors=(*doc.AUTHENTICATED, *doc.WITH_BODY, *doc.WITH_KEY),
        body=schemas.NewTask,
        body_example=examples.NEW_TASK,
        parameters=[doc.KEY_PARAMETER],
    ),
)
async def submit(request: Request, caller: Editor) -> Response:
    deps = deps_of(request)
    key = idempotency_key(request)
    new: NewTask | None = None
    refusal: LingxiError | None = None

    def prepare(body: bytes) -> bytes:
        nonlocal new, refusal
        document = parse(body)
        try:
            new = check_submission(document, caller.workspace_id, deps.registry)
        except LingxiError as error:
            refusal = error
        return canonical_digest(document) if key is not None else b""

    digest = await off_loop(await read_body(request), prepare)

    async def work(connection: Connection) -> Done:
        assert new is not None  # else there is a refusal, and this is not called
        await deps.quotas.charge_items(connection, caller.workspace_id, len(new.inputs))
        task = await submit_task(connection, new)
        return _done(task, 202, {"Location": f"/api/v1/media-tasks/{task.id}"})

    return await _run(request, caller, "task.submit", key, digest, work, refusal=refusal)


# ── read ─────────────────────────────────────────────────────────────────────────────────────────────────
@router.get(
    "/media-tasks",
    **documented(
        summary="List tasks, newest first",
        answer=schemas.TaskPage,
        example={"tasks": [examples.ENDED], "nextCursor": None},
        errors=(*doc.AUTHENTICATED, doc.BAD_CURSOR, doc.BAD_QUERY),
        parameters=[_METADATA_PARAMETER],
    ),
)
async def list_(
    request: Request,
    caller: Viewer,
    limit: Limit = DEFAULT_LIMIT,
    cursor: CursorText = None,
    status: Annotated[list[schemas.TaskStatusName] | None, Query(description="Any of these.")] = None,
    type_: Annotated[list[TypeName] | None, Query(alias="type", description="Any of these.")] = None,
    created_after: Annotated[Moment | None, Query(alias="createdAfter", description="At or after.")] = None,
    created_before: Annotated[Moment | None, Query(alias="createdBefore", description="Before.")] = None,
) -> Response:
    known = ("limit", "cursor", "status", "type", "createdAfter", "createdBefore")
    refuse_unknown_query(request, known, prefix=_METADATA)
    _check_types(request, type_ or ())
    wanted = TaskFilter(status, type_, created_after, created_before, _metadata_filter(request))
    cursors = _cursors(request, caller.workspace_id, "media-tasks")
    after: tuple[datetime, UUID] | None = None
    if cursor is not None:
        at, task_id = cursors.open(cursor)
        after = (datetime.fromisoformat(at), UUID(task_id))
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        tasks = await list_tasks(connection, caller.workspace_id, wanted, after=after, limit=limit + 1)
    page = tasks[:limit]
    more = len(tasks) > limit
    next_cursor = cursors.seal([page[-1].created_at.isoformat(), str(page[-1].id)]) if more else None
    return json_answer({"tasks": [task_to_wire(task) for task in page], "nextCursor": next_cursor})


@router.get(
    "/media-tasks/{taskId}",
    **documented(
        summary="Show a task",
        answer=schemas.TaskShown,
        example=examples.ENDED,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, doc.BAD_QUERY),
    ),
)
async def show(
    request: Request,
    caller: Viewer,
    task_id: TaskIdText,
    eta: Annotated[bool, Query(description="With `eta`: when it will have ended.")] = False,
) -> Response:
    task = await _existing(deps_of(request), caller, task_id)
    return json_answer(task_to_wire(task) | ({"eta": await eta_of(deps_of(request), task)} if eta else {}))


@router.get(
    "/media-tasks/{taskId}/items",
    **documented(
        summary="List a task's items with their attempts, in order",
        answer=schemas.ItemPage,
        example={"items": [examples.ITEM], "nextCursor": None},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, doc.BAD_CURSOR, doc.BAD_QUERY),
    ),
)
async def items(
    request: Request,
    caller: Viewer,
    task_id: TaskIdText,
    limit: Limit = DEFAULT_LIMIT,
    cursor: CursorText = None,
    state: Annotated[list[schemas.ItemStateName] | None, Query(description="Any of these.")] = None,
) -> Response:
    task = await _existing(deps_of(request), caller, task_id)
    refuse_unknown_query(request, ("limit", "cursor", "state"))
    cursors = _cursors(request, caller.workspace_id, f"media-tasks/{task.id}/items")
    position = cursors.open(cursor)[0] if cursor is not None else 0
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        found = await list_items(connection, task.id, states=state, after_position=position, limit=limit + 1)
    page = found[:limit]
    next_cursor = cursors.seal([page[-1].position]) if len(found) > limit else None
    return json_answer({"items": [item_to_wire(item) for item in page], "nextCursor": next_cursor})


# ── steer ────────────────────────────────────────────────────────────────────────────────────────────────
@router.post(
    "/media-tasks/{taskId}/cancel",
    **documented(
        summary="Cancel what has not started",
        meaning="Items that had not started are cancelled; what runs finishes. Again is the same.",
        answer=schemas.Task,
        example=examples.CANCELLED,
        headers=doc.REPLAYED_HEADER,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, *doc.WITH_KEY, doc.STATE),
        body_content=doc.EMPTY_BODY,
        body_required=False,
        parameters=[doc.KEY_PARAMETER],
    ),
)
async def cancel(request: Request, caller: Editor, task_id: TaskIdText) -> Response:
    async def work(connection: Connection, found: UUID) -> Done:
        return _done(await cancel_task(connection, caller.workspace_id, found), 200)

    return await _steer(request, caller, task_id, "task.cancel", work)


@router.post(
    "/media-tasks/{taskId}/retry-failed",
    **documented(
        summary="Run the failed items again, as a new round",
        status=202,
        meaning="The failed items are queued again: all, or those of some codes, or first one of each code.",
        answer=schemas.Task,
        example=examples.RETRIED,
        headers=doc.REPLAYED_HEADER,
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, *doc.WITH_KEY, doc.STATE),
        body=RetryChoice,
        body_example={},
        body_required=False,
        parameters=[doc.KEY_PARAMETER],
    ),
)
async def retry(request: Request, caller: Editor, task_id: TaskIdText) -> Response:
    task = await _existing(deps_of(request), caller, task_id)
    key = idempotency_key(request)
    read = await read_choice(request)
    only, canary = read.choice.only, read.choice.canary

    async def work(connection: Connection) -> Done:
        again = await retry_failed(connection, caller.workspace_id, task.id, only=only, canary=canary)
        return _done(again, 202)

    return await _run(request, caller, "task.retry_failed", key, read.digest, work, refusal=read.refusal)


# ── what they share ──────────────────────────────────────────────────────────────────────────────────────
async def _steer(
    request: Request,
    caller: Caller,
    text: str,
    verb: str,
    work: Callable[[Connection, UUID], Awaitable[Done]],
) -> Response:
    task = await _existing(deps_of(request), caller, text)
    key = idempotency_key(request)
    digest, refusal = await nothing_with_key(request)
    return await _run(
        request, caller, verb, key, digest, lambda connection: work(connection, task.id), refusal=refusal
    )


async def _run(
    request: Request,
    caller: Caller,
    verb: str,
    key: str | None,
    digest: bytes,
    work: Callable[[Connection], Awaitable[Done]],
    *,
    refusal: LingxiError | None,
) -> Response:
    deps = deps_of(request)
    changes: Changes = request.app.state.changes
    change = Change(caller.workspace_id, caller.token_id, verb, request.scope["request_id"])
    path = request.scope["path"]
    scope = KeyScope(caller.workspace_id, request.method, path, key) if key is not None else None
    task_ids: list[UUID] = []

    async def noted(connection: Connection) -> Done:
        done = await work(connection)
        task_ids.append(UUID(done.target.removeprefix("task:")))
        return done

    response = await changes.run_once(change, scope, digest, noted, refusal=refusal)
    if task_ids:  # something was committed now: let dispatcher and watchers know
        deps.hints.publish_outbox()
        deps.hints.publish_tasks(task_ids)
    return response


def _check_types(request: Request, types: Sequence[str]) -> None:
    """A deployment may have users' types besides those of the document."""
    known = dict.fromkeys([*QUEUES, *deps_of(request).config.queues])
    if unknown := [name for name in types if name not in known]:
        why = f"{unknown[0][:64]!r} is no type; known are: {', '.join(known)}"
        raise SchemaError(f"type: {why}.", [FieldError("type", why)])


def _done(task: Task, status: int, headers: dict[str, str] | None = None) -> Done:
    return Done(status, orjson.dumps(task_to_wire(task)), f"task:{task.id}", headers or {})


async def _existing(deps: ApiDeps, caller: Caller, text: str) -> Task:
    """The task, or NotFound: the same for an unknown id, another workspace's, and no id at all."""
    task_id = task_id_of(text)
    async with deps.pool.acquire(timeout=5) as connection:
        task = await get_task(connection, caller.workspace_id, task_id)
    if task is None:
        raise NotFound
    return task


def _cursors(request: Request, workspace_id: UUID, route: str) -> Cursors:
    filters = [
        f"{name}={value}"
        for name, value in request.query_params.multi_items()
        if name not in ("cursor", "limit")
    ]
    return Cursors(Signer(deps_of(request).config.secret_keys), workspace_id, route, tuple(sorted(filters)))


def _metadata_filter(request: Request) -> list[str] | None:
    """`metadata.a=1` matches the text "1" and the number 1: JSON texts of which one must be contained."""
    given = [
        (n.removeprefix(_METADATA), v)
        for n, v in request.query_params.multi_items()
        if n.startswith(_METADATA)
    ]
    if not given:
        return None
    if len(given) > _MAX_METADATA_FILTERS or len({name for name, _ in given}) < len(given):
        why = f"at most {_MAX_METADATA_FILTERS} different members"
        raise SchemaError(f"metadata: {why}.", [FieldError("metadata", why)])
    choices = product(*(_readings(value) for _, value in given))
    return [
        orjson.dumps(dict(zip((n for n, _ in given), values, strict=True))).decode() for values in choices
    ]


def _readings(text: str) -> list[Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return [text]
    return [text, value] if isinstance(value, bool | int | float) else [text]
