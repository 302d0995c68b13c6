"""Each test of the port runs on the local folder and on a real S3 server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lingxi.storage import open_storage
from tests.integration.storage.places import BUCKET, BucketPlace, FolderPlace, Place


@pytest.fixture(params=["local", "s3"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    opened: Place
    if request.param == "local":
        folder = tmp_path / "a folder"
        opened = FolderPlace(open_storage(folder.as_uri()), folder)
    else:
        server = request.getfixturevalue("s3_server")
        prefix = f"t-{uuid.uuid4().hex[:12]}"
        opened = BucketPlace(open_storage(f"s3://{BUCKET}/{prefix}", server.access), server, prefix)
    yield opened
    await opened.storage.close()
