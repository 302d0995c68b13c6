"""Each test of the port runs on the local folder and on a real S3 server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.storage.places import Place, open_place


@pytest.fixture(params=["local", "s3"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request, request.param, tmp_path / "a folder") as opened:
        yield opened
