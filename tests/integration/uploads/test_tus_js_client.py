"""The tus project's own client, tus-js-client from npm: an upload that is cut and goes on, checksums, termination."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.uploads.stage import Stage, jpeg
from tests.support.node_packages import node_modules
from tests.support.processes import environment
from tests.support.proxy import CuttingProxy
from tests.support.waiting import wait_until

SOURCE = Path(__file__).with_name("node")
CONTENT = jpeg(1, 3_000_000)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "Ünal 😀.jpg"
    path.write_bytes(CONTENT)
    return path


async def upload(stage: Stage, path: Path, *, through: CuttingProxy | None = None, **job: Any) -> Any:
    """Run the client to its end; answers what it tells."""
    endpoint = f"{stage.api.url}/api/v1/albums/{stage.album_id}/uploads"
    if through is not None:
        endpoint = through.url(endpoint)
    job = {"endpoint": endpoint, "token": stage.world.ours.editor, "path": str(path), **job}
    process = await asyncio.create_subprocess_exec(
        "node",
        str(SOURCE / "upload.js"),
        json.dumps(job),
        stdout=asyncio.subprocess.PIPE,
        env=environment(NODE_PATH=str(node_modules(SOURCE, "to upload with tus's own client"))),
    )
    async with asyncio.timeout(60):
        told, _ = await process.communicate()
    return json.loads(told)


async def test_an_upload_that_is_cut_half_way_goes_on_from_there(
    roomy: Stage, photo: Path, proxy_to: Callable[[str], CuttingProxy]
) -> None:
    proxy = proxy_to(roomy.api.url)
    proxy.refuse_after_sent(len(CONTENT) // 2)
    uploading = asyncio.create_task(upload(roomy, photo, through=proxy))

    async def kept() -> bool:
        return bool(await roomy.pool.fetchval("select max(received_bytes) > 0 from uploads"))

    await wait_until(kept, 60, "what came before the cut is kept")
    proxy.forward()
    told = await uploading
    assert told["outcome"] == "success", told
    methods = [method for method, _ in told["requests"]]
    offsets = [offset for method, offset in told["requests"] if method == "PATCH"]
    assert methods[:2] == ["POST", "PATCH"] and "HEAD" in methods
    assert offsets[0] == 0 and 0 < offsets[-1] < len(CONTENT), told["requests"]
    await _is_the_one_photo(roomy, told)


async def test_chunks_with_checksums(roomy: Stage, photo: Path) -> None:
    told = await upload(roomy, photo, chunkSize=1_000_000, checksum="sha256")
    assert told["requests"] == [["POST", None], ["PATCH", 0], ["PATCH", 1_000_000], ["PATCH", 2_000_000]]
    await _is_the_one_photo(roomy, told)


async def test_an_upload_that_was_left_is_resumed_by_its_address_or_terminated(
    roomy: Stage, photo: Path
) -> None:
    left = await upload(roomy, photo, chunkSize=1_000_000, stopAt=1_500_000)
    assert left["outcome"] == "stopped" and await roomy.photos() == []
    told = await upload(roomy, photo, url=left["url"])
    assert told["requests"][0] == ["HEAD", None] and told["requests"][1][1] >= 1_000_000
    await _is_the_one_photo(roomy, told)
    ended = await upload(roomy, photo, chunkSize=1_000_000, stopAt=1_500_000, terminate=True)
    assert ended["outcome"] == "stopped" and ended["requests"][-1] == ["DELETE", None]
    assert await roomy.count("uploads") == 1  # the one that is complete
    assert len(roomy.stored()) == 1


async def _is_the_one_photo(stage: Stage, told: Any) -> None:
    [row] = await stage.photos()
    assert told["outcome"] == "success", told
    assert told["last"] == {"status": 204, "photoId": str(row["id"]), "created": "true"}
    assert row["sha256"] == hashlib.sha256(CONTENT).digest() and row["file_name"] == "Ünal 😀.jpg"
    assert stage.stored() == [row["storage_key"]]
