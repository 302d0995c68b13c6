"""Webhook endpoints of the caller's workspace: made, changed, rotated, deleted; their deliveries, and replays."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated
from uuid import UUID

import orjson
from fastapi import APIRouter, Path, Query
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import webhook_answers as examples
from lingxi.api import webhook_schemas as schemas
from lingxi.api.album_changes import audited_change
from lingxi.api.answers import json_answer
from lingxi.api.auth import Admin, Caller
from lingxi.api.changes import Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.paging import DEFAULT_LIMIT, Cursors, CursorText, Limit
from lingxi.api.reading import id_of, read_body, read_json, read_nothing, refuse_unknown_query, validated
from lingxi.api.signing import Signer
from lingxi.api.webhook_answers import delivery_to_wire, endpoint_to_wire
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, FieldError, NotFound, SchemaError
from lingxi.names import WEBHOOK_QUEUE
from lingxi.processors.outgoing.urls import UrlRefused, check_url
from lingxi.services.webhook_deliveries import list_deliveries, replay_one, replay_since
from lingxi.services.webhook_endpoints import (
    MAX_ENDPOINTS,
    WebhookEndpoint,
    change_endpoint,
    create_endpoint,
    delete_endpoint,
    disable_endpoint,
    enable_endpoint,
    get_endpoint,
    list_endpoints,
    rotate_secret,
)

router = APIRouter(prefix="/api/v1/webhooks", tags=["Webhooks"])

WebhookIdText = Annotated[
    str, Path(alias="webhookId", description="The endpoint's id.", json_schema_extra={"format": "uuid"})
]
_NEW = TypeAdapter(schemas.NewWebhook)
_CHANGE = TypeAdapter(schemas.WebhookChange)
_ROTATION = TypeAdapter(schemas.WebhookRotation)
_REPLAY = TypeAdapter(schemas.WebhookReplay)
_TOO_MANY = Conflict(f"The workspace has {MAX_ENDPOINTS} endpoints, which is the most.")
_DISABLED = Conflict("The endpoint is disabled; enable it first.")
_ONE = (*doc.AUTHENTICATED, doc.NOT_FOUND)
_STEERED = (*_ONE, *doc.WITH_BODY)


@router.post(
    "",
    **documented(
        summary="Make a webhook endpoint",
        status=201,
        meaning="Its secret is in this answer, and never again.",
        answer=schemas.CreatedWebhook,
        example=examples.CREATED_ENDPOINT,
        headers=doc.LOCATION_HEADER,
        errors=(*doc.AUTHENTICATED, *doc.WITH_BODY, _TOO_MANY),
        body=schemas.NewWebhook,
        body_example={"url": examples.ENDPOINT["url"], "events": examples.ENDPOINT["events"]},
    ),
)
async def create(request: Request, caller: Admin) -> Response:
    new = validated(_NEW, await read_json(request))
    deps_of(request).registry.get(WEBHOOK_QUEUE)  # a deployment without the queue would never send
    _check_url(request, new.url)

    async def work(connection: Connection) -> Done:
        made = await create_endpoint(
            connection, caller.workspace_id, url=new.url, events=new.events, description=new.description
        )
        if made is None:
            raise _TOO_MANY
        endpoint, secret = made
        location = {"Location": f"/api/v1/webhooks/{endpoint.id}"}
        answer = {**endpoint_to_wire(endpoint), "secret": secret}
        return Done(201, orjson.dumps(answer), f"webhook:{endpoint.id}", location)

    return await audited_change(request, caller, "webhook.create", None, work)


@router.get(
    "",
    **documented(
        summary="List the workspace's webhook endpoints, oldest first",
        answer=schemas.WebhookList,
        example={"webhooks": [examples.ENDPOINT]},
        errors=doc.AUTHENTICATED,
    ),
)
async def list_(request: Request, caller: Admin) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        found = await list_endpoints(connection, caller.workspace_id)
    return json_answer({"webhooks": [endpoint_to_wire(endpoint) for endpoint in found]})


@router.get(
    "/{webhookId}",
    **documented(
        summary="Show a webhook endpoint", answer=schemas.Webhook, example=examples.ENDPOINT, errors=_ONE
    ),
)
async def show(request: Request, caller: Admin, webhook_id: WebhookIdText) -> Response:
    return json_answer(endpoint_to_wire(await _own(request, caller, webhook_id)))


@router.patch(
    "/{webhookId}",
    **documented(
        summary="Change a webhook endpoint",
        meaning="A delivery that waits goes to the new URL.",
        answer=schemas.Webhook,
        example=examples.ENDPOINT,
        errors=_STEERED,
        body=schemas.WebhookChange,
        body_example={"events": ["photo.published"]},
    ),
)
async def change(request: Request, caller: Admin, webhook_id: WebhookIdText) -> Response:
    own = await _own(request, caller, webhook_id)
    asked = validated(_CHANGE, await read_json(request))
    if asked.url is not None:
        _check_url(request, asked.url)

    async def work(connection: Connection) -> WebhookEndpoint | None:
        return await change_endpoint(
            connection,
            caller.workspace_id,
            own.id,
            url=asked.url,
            events=asked.events,
            description=asked.description,
        )

    return await _steer(request, caller, "webhook.change", work)


@router.post(
    "/{webhookId}/enable",
    **documented(
        summary="Enable a webhook endpoint",
        meaning="Its failures are forgotten. What it missed waits to be replayed. Again is the same.",
        answer=schemas.Webhook,
        example=examples.ENDPOINT,
        errors=_STEERED,
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def enable(request: Request, caller: Admin, webhook_id: WebhookIdText) -> Response:
    own = await _own(request, caller, webhook_id)
    await read_nothing(request)
    return await _steer(
        request, caller, "webhook.enable", lambda c: enable_endpoint(c, caller.workspace_id, own.id)
    )


@router.post(
    "/{webhookId}/disable",
    **documented(
        summary="Disable a webhook endpoint",
        meaning="Nothing is sent to it any more; what waits fails as `endpoint_disabled`. Again is the same.",
        answer=schemas.Webhook,
        example={
            **examples.ENDPOINT,
            "enabled": False,
            "disabledAt": examples.ENDPOINT["createdAt"],
            "disabledReason": "asked",
        },
        errors=_STEERED,
        body_content=doc.EMPTY_BODY,
        body_required=False,
    ),
)
async def disable(request: Request, caller: Admin, webhook_id: WebhookIdText) -> Response:
    own = await _own(request, caller, webhook_id)
    await read_nothing(request)
    return await _steer(
        request,
        caller,
        "webhook.disable",
        lambda c: disable_endpoint(c, caller.workspace_id, own.id, "asked"),
    )


@router.post(
    "/{webhookId}/rotate",
    **documented(
        summary="Give a webhook endpoint a new secret",
        meaning="The new secret is in this answer, and never again. For a while both sign each request.",
        answer=schemas.CreatedWebhook,
        example={**examples.CREATED_ENDPOINT, "rotatingUntil": "2026-12-02T20:00:00.000000Z"},
        errors=_STEERED,
        body=schemas.WebhookRotation,
        body_example={"overlapSeconds": schemas.DEFAULT_OVERLAP_SECONDS},
        body_required=False,
    ),
)
async def rotate(request: Request, caller: Admin, webhook_id: WebhookIdText) -> Response:
    own = await _own(request, caller, webhook_id)
    asked = validated(_ROTATION, await read_json(request) if await read_body(request) else {})

    async def work(connection: Connection) -> Done:
        rotated = await rotate_secret(
            connection, caller.workspace_id, own.id, overlap_seconds=asked.overlap_seconds
        )
        if rotated is None:
            raise NotFound
        endpoint, secret = rotated
        answer = {**endpoint_to_wire(endpoint), "secret": secret}
        return Done(200, orjson.dumps(answer), f"webhook:{endpoint.id}")

    return await audited_change(request, caller, "webhook.rotate", None, work)


@router.delete(
    "/{webhookId}",
    **documented(
        summary="Delete a webhook endpoint",
        status=204,
        meaning="It and its deliveries are gone; what waits for it fails as `delivery_not_found`.",
        errors=_ONE,
    ),
)
async def delete(request: Request, caller: Admin, webhook_id: WebhookIdText) -> Response:
    own = await _own(request, caller, webhook_id)

    async def work(connection: Connection) -> Done:
        if await delete_endpoint(connection, caller.workspace_id, own.id) is None:
            raise NotFound
        return Done(204, b"", f"webhook:{own.id}")

    return await audited_change(request, caller, "webhook.delete", None, work)


@router.get(
    "/{webhookId}/deliveries",
    **documented(
        summary="List a webhook endpoint's deliveries, newest first",
        answer=schemas.WebhookDeliveryPage,
        example={"deliveries": [examples.DELIVERY], "nextCursor": None},
        errors=(*_ONE, doc.BAD_CURSOR, doc.BAD_QUERY),
    ),
)
async def deliveries(
    request: Request,
    caller: Admin,
    webhook_id: WebhookIdText,
    state: Annotated[
        list[schemas.DeliveryStateName] | None, Query(description="Only these; may be given more than once.")
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: CursorText = None,
) -> Response:
    own = await _own(request, caller, webhook_id)
    refuse_unknown_query(request, ("state", "limit", "cursor"))
    deps = deps_of(request)
    route, states = f"webhooks/{own.id}/deliveries", sorted(set(state or ()))
    cursors = Cursors(Signer(deps.config.secret_keys), caller.workspace_id, route, states)
    after: tuple[datetime, UUID] | None = None
    if cursor is not None:
        at, event_id = cursors.open(cursor)
        after = (datetime.fromisoformat(at), UUID(event_id))
    async with deps.pool.acquire(timeout=5) as connection:
        found = await list_deliveries(connection, own.id, states=states or None, after=after, limit=limit + 1)
    last = found[limit - 1] if len(found) > limit else None
    return json_answer(
        {
            "deliveries": [delivery_to_wire(delivery) for delivery in found[:limit]],
            "nextCursor": None
            if last is None
            else cursors.seal([last.created_at.isoformat(), str(last.event_id)]),
        }
    )


@router.post(
    "/{webhookId}/replay",
    **documented(
        summary="Deliver again: one event, or all that failed since",
        status=202,
        meaning="A task of `webhook:deliver` with the events under their own ids. What is on its way is left alone.",
        answer=schemas.WebhookReplayed,
        example={"replayed": 1, "taskId": examples.TASK_ID},
        errors=(*_STEERED, _DISABLED),
        body=schemas.WebhookReplay,
        body_example={"since": "2026-12-01T20:00:00Z"},
    ),
)
async def replay(request: Request, caller: Admin, webhook_id: WebhookIdText) -> Response:
    own = await _own(request, caller, webhook_id)
    asked = validated(_REPLAY, await read_json(request))
    if (asked.event_id is None) == (asked.since is None):
        raise SchemaError("Give eventId or since, one of the two.", [FieldError("since", "one of the two")])

    async def work(connection: Connection) -> Done:
        if asked.since is not None:
            count, task = await replay_since(connection, caller.workspace_id, own.id, asked.since)
        else:
            event_id = id_of(asked.event_id or "")
            count, task = await replay_one(connection, caller.workspace_id, own.id, event_id)
        answer = {"replayed": count, "taskId": None if task is None else str(task.id)}
        return Done(202, orjson.dumps(answer), f"webhook:{own.id}")

    return await audited_change(request, caller, "webhook.replay", None, work)


async def _own(request: Request, caller: Caller, text: str) -> WebhookEndpoint:
    """The endpoint of the caller's workspace; NotFound, the same for another's and for no id at all."""
    endpoint_id = id_of(text)
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        found = await get_endpoint(connection, caller.workspace_id, endpoint_id)
    if found is None:
        raise NotFound
    return found


async def _steer(
    request: Request,
    caller: Caller,
    verb: str,
    change: Callable[[Connection], Awaitable[WebhookEndpoint | None]],
) -> Response:
    async def work(connection: Connection) -> Done:
        endpoint = await change(connection)
        if endpoint is None:
            raise NotFound
        return Done(200, orjson.dumps(endpoint_to_wire(endpoint)), f"webhook:{endpoint.id}")

    return await audited_change(request, caller, verb, None, work)


def _check_url(request: Request, url: str) -> None:
    try:
        check_url(url, deps_of(request).config.webhook_rule)
    except UrlRefused as refused:
        raise SchemaError(f"url: it {refused}.", [FieldError("url", f"it {refused}")]) from None
