"""Workers in other languages: they take our jobs with their own BullMQ, and claim, renew and finish the items here.

Behind the same fence as our own workers: an attempt that was superseded changes nothing and is told so (40901). The token has
the role `worker`: it belongs to no workspace, and may do nothing else.
"""

from contextlib import suppress
from datetime import UTC
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Path
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import examples
from lingxi.api import worker_schemas as shapes
from lingxi.api.answers import json_answer
from lingxi.api.auth import Anyone, Worker
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import read_json, validated
from lingxi.broker.errors import BrokerError
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.stats import FinishedCounts
from lingxi.broker.totals import Totals
from lingxi.db.session import Connection
from lingxi.domain.decide import Failed, GivenBack, Happening, Succeeded
from lingxi.domain.errors import ITEM_CODES, Conflict, FieldError, NotFound, SchemaError
from lingxi.domain.ids import item_id
from lingxi.domain.wire import time_to_wire
from lingxi.observability.tallies import Tallies
from lingxi.processors.results import encode_result
from lingxi.services.claim_items import Claim
from lingxi.services.serve_attempt import (
    AttemptKey,
    Ended,
    Origin,
    claim_for,
    finish_for,
    origin_of,
    parse_item,
    queue_of,
    renew_for,
)

router = APIRouter(prefix="/api/v1/worker", tags=["Workers"])

_SUPERSEDED = Conflict("The attempt was superseded: somebody else has the item, or it has ended.")
_CLAIMS = TypeAdapter(shapes.NewClaims)
_LEASE = TypeAdapter(shapes.NewLease)
_ENDING = TypeAdapter(shapes.NewEnding)
AttemptText = Annotated[
    str,
    Path(
        alias="attemptId",
        description="`attemptId` of a claim.",
        json_schema_extra={"pattern": shapes.ATTEMPT_PATTERN},
    ),
]


@router.post(
    "/claims",
    **documented(
        summary="Claim the items that jobs name",
        meaning="Each claimed item is this worker's for the lease. Without items: only a heartbeat of the queue.",
        answer=shapes.Claims,
        example=examples.CLAIMS,
        errors=(*doc.AUTHENTICATED, *doc.WITH_BODY),
        body=shapes.NewClaims,
        body_example=examples.NEW_CLAIMS,
    ),
)
async def claim(request: Request, caller: Worker) -> Response:
    deps = deps_of(request)
    asked = validated(_CLAIMS, await read_json(request))
    processor = deps.registry.get(asked.type)
    keys = {text: parse_item(text) for text in dict.fromkeys(asked.items)}
    known = {key: text for text, key in keys.items() if key is not None}
    await _beat(deps, asked.type, asked.worker)
    if not asked.items:
        return json_answer({"claimed": [], "notClaimed": []})

    async def work(connection: Connection) -> Done:
        made = await claim_for(
            connection,
            asked.type,
            list(known),
            worker=asked.worker,
            lease_seconds=asked.lease_seconds,
            time_limit_seconds=processor.time_limit_seconds,
        )
        unknown = {text: "unknown" for text, key in keys.items() if key is None}
        why = unknown | {known[key]: reason for key, reason in made.not_claimed.items()}
        answer = {
            "claimed": [_claim_to_wire(one, asked.lease_seconds) for one in made.claims],
            "notClaimed": [{"itemId": text, "reason": reason} for text, reason in why.items()],
        }
        tasks.update(one.key.task_id for one in made.claims)
        return Done(200, orjson.dumps(answer), f"queue:{asked.type}")

    tasks: set[UUID] = set()
    response = await _changes(request).run(_change(request, caller, "worker.claim"), work)
    deps.hints.publish_tasks(tasks)
    return response


@router.put(
    "/attempts/{attemptId}/lease",
    **documented(
        summary="Keep an attempt's lease, and tell its progress",
        meaning="The item stays this worker's for the lease, though never past the attempt's deadline.",
        answer=shapes.Lease,
        example={"leaseSeconds": 30.0},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _SUPERSEDED),
        body=shapes.NewLease,
        body_example={"leaseSeconds": 30.0, "progress": {"done": 3, "total": 10, "note": None}},
    ),
)
async def renew(request: Request, caller: Worker, attempt_id: AttemptText) -> Response:
    attempt = _attempt_of(attempt_id)
    asked = validated(_LEASE, await read_json(request))

    async def work(connection: Connection) -> Done:
        if not await renew_for(connection, attempt, lease_seconds=asked.lease_seconds):
            raise _SUPERSEDED
        return Done(200, orjson.dumps({"leaseSeconds": asked.lease_seconds}), f"attempt:{attempt}")

    response = await _changes(request).run(_change(request, caller, "worker.renew"), work)
    if (said := asked.progress) is not None:
        frame = {
            "taskId": str(attempt.item.task_id),
            "itemId": attempt_id.partition(".")[0],
            "index": attempt.item.position - 1,
            "done": said.done,
            "total": said.total,
            "note": said.note,
        }
        deps_of(request).hints.publish_progress(orjson.dumps(frame))
    return response


@router.post(
    "/attempts/{attemptId}/finish",
    **documented(
        summary="End an attempt",
        meaning="What became of it is stored. Told again, it is `already`.",
        answer=shapes.Ending,
        example={"verdict": "accepted", "state": "succeeded"},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, _SUPERSEDED),
        body=shapes.NewEnding,
        body_example={"outcome": "succeeded", "result": {"width": 4032}},
    ),
)
async def finish(request: Request, caller: Worker, attempt_id: AttemptText) -> Response:
    deps, attempt = deps_of(request), _attempt_of(attempt_id)
    asked = validated(_ENDING, await read_json(request))
    told: list[tuple[Origin, Ended]] = []
    fenced: list[str | None] = []

    async def work(connection: Connection) -> Done:
        origin = await origin_of(connection, attempt)
        if origin is None:
            fenced.append(await queue_of(connection, attempt))
            raise _SUPERSEDED
        processor = deps.registry.find(origin.type)
        ended = await finish_for(
            connection,
            attempt,
            origin,
            _happening(asked, processor.result_model if processor else None),
            backoff_seconds=processor.backoff_seconds if processor else 2.0,
        )
        if ended is None:
            fenced.append(origin.type)
            raise _SUPERSEDED
        told.append((origin, ended))
        body = orjson.dumps({"verdict": ended.verdict, "state": ended.state})
        return Done(200, body, f"attempt:{attempt}")

    try:
        response = await _changes(request).run(_change(request, caller, "worker.finish"), work)
    finally:
        for queue in filter(None, fenced):
            await _count_fenced(deps, queue)
    for origin, ended in told:
        deps.hints.publish_tasks([attempt.item.task_id])
        deps.hints.publish_outbox()
        if ended.verdict == "accepted":
            await _count(deps, origin.type, ended)
    return response


def _happening(asked: shapes.NewEnding, result_model: Any) -> Happening:
    if asked.outcome != "failed" and asked.error is not None:
        raise _contradiction("error", "only what failed has an error")
    if asked.outcome != "succeeded" and asked.result is not None:
        raise _contradiction("result", "only what succeeded has a result")
    match asked.outcome, asked.error:
        case "released", _:
            return GivenBack()
        case "failed", None:
            raise _contradiction("error", "what failed needs an error")
        case "failed", shapes.NewItemError(code=code, message=message, retryable=retryable, retry_after=wait):
            return Failed(code, message, retryable, wait)
    encoded: Succeeded | Failed = encode_result(asked.result, result_model)
    return encoded


def _contradiction(field: str, why: str) -> SchemaError:
    return SchemaError(f"{field}: {why}.", [FieldError(field, why)])


def _attempt_of(text: str) -> AttemptKey:
    attempt = AttemptKey.parse(text)
    if attempt is None:
        raise NotFound
    return attempt


def _claim_to_wire(claim: Claim, lease_seconds: float) -> dict[str, Any]:
    item = str(item_id(claim.key.task_id, claim.key.position))
    return {
        "attemptId": str(AttemptKey(claim.key, claim.fence)),
        "itemId": item,
        "taskId": str(claim.key.task_id),
        "workspaceId": str(claim.workspace_id),
        "index": claim.key.position - 1,
        "ref": claim.ref,
        "attempt": claim.attempt,
        "round": claim.round,
        "input": orjson.loads(claim.input),
        "idempotencyKey": item,
        "leaseSeconds": lease_seconds,
        "deadlineAt": time_to_wire(claim.deadline_at.astimezone(UTC)),
    }


async def _beat(deps: ApiDeps, queue: str, worker: str) -> None:
    """In the worker's name; Redis away is no reason to refuse."""
    try:
        await Heartbeats(deps.redis).beat(queue, worker)
    except BrokerError:
        return


async def _count(deps: ApiDeps, queue: str, ended: Ended) -> None:
    """For health and metrics, as our own workers count theirs; Redis away: not counted."""
    tallies, code = Tallies(), ended.decision.error_code
    tallies.count("lingxi_item_attempts_total", queue, ended.decision.outcome)
    if code is not None:
        tallies.count("lingxi_item_failures_total", queue, code if code in ITEM_CODES else "other")
    await Totals(deps.redis).tell(tallies)
    with suppress(BrokerError):
        await FinishedCounts(deps.redis).add(
            queue, int(ended.state == "succeeded"), int(ended.state == "failed")
        )


async def _count_fenced(deps: ApiDeps, queue: str) -> None:
    tallies = Tallies()
    tallies.count("lingxi_item_attempts_total", queue, "superseded")
    await Totals(deps.redis).tell(tallies)


def _changes(request: Request) -> Changes:
    changes: Changes = request.app.state.changes
    return changes


def _change(request: Request, caller: Anyone, verb: str) -> Change:
    return Change(None, caller.token_id, verb, request.scope["request_id"])
