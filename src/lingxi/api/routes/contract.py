"""`GET /openapi.json`: the document of this deployment, users' processors included. It is not in the document itself."""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api.answers import json_answer
from lingxi.api.auth import AnyCaller
from lingxi.api.deployed import deployed_document
from lingxi.api.deps import deps_of

router = APIRouter(prefix="/api/v1", tags=["Contract"])


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, caller: AnyCaller) -> Response:
    from lingxi.api.openapi import document  # it is made of all routes, this one too

    processors = deps_of(request).registry.processors()
    return json_answer(await asyncio.to_thread(lambda: deployed_document(document(), processors)))
