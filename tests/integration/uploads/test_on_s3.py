"""Uploads where storage is a real S3 server: a form, and pieces of a resumable upload, one of them cut."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from lingxi.api.limits import Limits
from tests.integration.api.raw import request as raw_request
from tests.integration.storage.places import open_place, read
from tests.integration.uploads.conftest import open_stage
from tests.integration.uploads.stage import jpeg, outcomes
from tests.integration.uploads.tus_client import BODY, VERSION, created, offset, patch
from tests.support.waiting import wait_until

CONTENT = jpeg(1, 2_000_000)
KEPT = 700_000


async def test_the_same_photos_as_in_a_folder(
    request: pytest.FixtureRequest, database_url: str, redis_url: str, world: Any, pool: Any, tmp_path: Path
) -> None:
    async with (
        open_place(request, "s3", tmp_path / "s3") as place,
        open_stage(database_url, redis_url, world, pool, tmp_path, Limits(), place.storage) as stage,
    ):
        form = await stage.post(("a.jpg", jpeg(7)), ("b.txt", b"words"), ("again.jpg", jpeg(7)))
        assert outcomes(form) == [("created", ""), ("refused", "unsupported_type"), ("exists", "")]

        at = await created(stage, len(CONTENT))
        await _cut_patch(stage, at)

        async def kept() -> bool:
            return await offset(stage, at) == KEPT

        await wait_until(kept, message="what has come is kept")
        await patch(stage, at, KEPT, CONTENT[KEPT:1_500_000])
        done = await patch(stage, at, 1_500_000, CONTENT[1_500_000:])
        assert done.headers["lingxi-photo-created"] == "true"

        photos = await stage.photos()
        assert [photo["sha256"] for photo in photos] == [
            hashlib.sha256(content).digest() for content in (jpeg(7), CONTENT)
        ]
        assert await read(place.storage, photos[1]["storage_key"]) == CONTENT
        assert len(await place.everything()) == 2


async def _cut_patch(stage: Any, at: str) -> None:
    address = httpx.URL(stage.api.url)
    _, writer = await asyncio.open_connection(address.host, address.port)
    headers = {**VERSION, **BODY, "Upload-Offset": "0", "Content-Length": str(len(CONTENT))}
    headers["Authorization"] = f"Bearer {stage.world.ours.editor}"
    lines = [f"{name}: {value}" for name, value in headers.items()]
    writer.write(raw_request("PATCH", httpx.URL(at).path, *lines) + CONTENT[:KEPT])
    await writer.drain()
    writer.close()
