"""tus by hand, for what no client library would send."""

from __future__ import annotations

import base64
from typing import Any

import httpx

from tests.integration.uploads.stage import Stage

VERSION = {"Tus-Resumable": "1.0.0"}
BODY = {"Content-Type": "application/offset+octet-stream"}


def metadata(**values: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in values.items())


async def create(
    stage: Stage, length: int, content: bytes = b"", *, name: str = "a.jpg", **headers: str
) -> httpx.Response:
    """Create an upload; with content, the first bytes in the same request."""
    given = {**VERSION, "Upload-Length": str(length), "Upload-Metadata": metadata(filename=name), **headers}
    if content:
        given |= BODY
    return await stage.client.post(f"albums/{stage.album_id}/uploads", content=content, headers=given)


async def created(stage: Stage, length: int, **more: Any) -> str:
    """The address of a new upload."""
    response = await create(stage, length, **more)
    assert response.status_code == 201, response.text
    return address(stage, response)


async def patch(
    stage: Stage, at: str, offset: int, content: Any, client: httpx.AsyncClient | None = None, **headers: str
) -> httpx.Response:
    given = {**VERSION, **BODY, "Upload-Offset": str(offset), **headers}
    return await (client or stage.client).patch(at, content=content, headers=given)


async def head(stage: Stage, at: str) -> httpx.Response:
    return await stage.client.head(at, headers=VERSION)


async def offset(stage: Stage, at: str) -> int:
    response = await head(stage, at)
    assert response.status_code == 200, response.text
    return int(response.headers["upload-offset"])


def address(stage: Stage, response: httpx.Response) -> str:
    """Where the upload is that this answer tells of."""
    return stage.api.url + str(response.headers["location"])
