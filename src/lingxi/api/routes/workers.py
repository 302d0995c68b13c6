"""Operators see worker processes, and make them quiet, stop them, or let them work again."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api import steering_schemas as shapes
from lingxi.api.answers import json_answer
from lingxi.api.auth import Anyone, Operator
from lingxi.api.changes import Change, Changes, Done
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.reading import read_nothing
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.services.worker_processes import Wanted, ask_worker, list_workers

router = APIRouter(prefix="/api/v1/workers", tags=["Operator"])

_EXAMPLE: dict[str, Any] = {
    "boot": "5f3a9c01",
    "name": "media-2:4242:5f3a9c01",
    "host": "media-2",
    "pid": 4242,
    "version": "0.1.0",
    "queues": ["media:verify", "media:probe"],
    "running": 3,
    "state": "working",
    "wanted": "work",
    "startedAt": "2026-12-01T10:00:00.000000Z",
    "seenAt": "2026-12-01T10:20:00.000000Z",
    "ageSeconds": 4.2,
}
_STOPS = Conflict("It stops, or has ended.")
BootText = Annotated[str, Path(alias="boot", json_schema_extra={"pattern": "^[0-9a-f]{8}$"})]


@router.get(
    "",
    **documented(
        summary="List worker processes",
        meaning="Each tells of itself at its heartbeat. `lost`: it has not for a minute.",
        answer=shapes.WorkerList,
        example={"workers": [_EXAMPLE]},
        errors=doc.AUTHENTICATED,
    ),
)
async def list_(request: Request, caller: Operator) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        workers = await list_workers(connection)
    return json_answer({"workers": [worker.to_wire() for worker in workers]})


def _asked(wanted: str, summary: str, meaning: str) -> Any:
    return documented(
        summary=summary,
        meaning=f"{meaning} It hears of it at its next heartbeat. Again is the same.",
        answer=shapes.Worker,
        example={**_EXAMPLE, "wanted": wanted},
        errors=(*doc.AUTHENTICATED, doc.NOT_FOUND, *doc.WITH_BODY, *((_STOPS,) if wanted != "stop" else ())),
        body_content=doc.EMPTY_BODY,
        body_required=False,
    )


@router.post(
    "/{boot}/quiet",
    **_asked(
        "quiet", "Make a worker process quiet", "It takes nothing new, finishes what it has, and stays."
    ),
)
async def make_quiet(request: Request, caller: Operator, boot: BootText) -> Response:
    return await _ask(request, caller, boot, "quiet")


@router.post(
    "/{boot}/stop",
    **_asked(
        "stop", "Stop a worker process", "As after SIGTERM; its supervisor starts no other in its place."
    ),
)
async def stop(request: Request, caller: Operator, boot: BootText) -> Response:
    return await _ask(request, caller, boot, "stop")


@router.post(
    "/{boot}/resume",
    **_asked("work", "Let a worker process work again", "One that is quiet takes jobs again."),
)
async def resume(request: Request, caller: Operator, boot: BootText) -> Response:
    return await _ask(request, caller, boot, None)


async def _ask(request: Request, caller: Anyone, boot: str, wanted: Wanted | None) -> Response:
    async with deps_of(request).pool.acquire(timeout=5) as connection:
        if all(worker.boot != boot for worker in await list_workers(connection)):
            raise NotFound
    await read_nothing(request)

    async def work(connection: Connection) -> Done:
        worker = await ask_worker(connection, boot, wanted)
        return Done(200, orjson.dumps(worker.to_wire()), f"worker:{worker.name}")

    changes: Changes = request.app.state.changes
    change = Change(None, caller.token_id, f"worker.{wanted or 'resume'}", request.scope["request_id"])
    return await changes.run(change, work)
