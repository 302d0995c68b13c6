"""schemathesis reads the whole committed document and tries to break the served API: no 5xx, no broken promise."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from lingxi.names import QUEUES
from lingxi.processors.contract import Processor
from lingxi.processors.registry import Registry
from tests.integration.albums.stage import Stage
from tests.integration.api.harness import QUICK_LIMITS, World, batch, changed, open_api

DOCUMENT = Path(__file__).parents[3] / "openapi" / "openapi.json"
SECONDS = int(os.environ.get("LINGXI_SCHEMATHESIS_SECONDS", "30"))

# What no schema can say: refs are unique in a task, inputs and metadata end at 16 kB, a cursor is one that was
# given out, an object's name has no controls and no '..', a form holds a file, and a file some bytes,
# a webhook's URL leads to a host that may be called.
CONFIG = """
[parameters]
taskId = "{task}"
albumId = "{album}"
photoId = "{photo}"
fileName = "{file}"

# The feed of an album never ends: it is tried elsewhere.
[[operations]]
include-operation-id = "get_albums_albumId_events"
enabled = false

# These would take away what the others ask for.
[[operations]]
include-operation-id = ["delete_albums_albumId", "delete_albums_albumId_photos_photoId",
    "post_albums_albumId_photos_photoId_recall", "post_albums_albumId_photos_photoId_hide"]
parameters = {{ albumId = "{task}" }}

[[operations]]
include-operation-id = ["post_media_tasks", "get_media_tasks", "get_media_tasks_taskId_items", "put_objects_name",
    "get_objects_name", "head_objects_name", "get_albums", "get_albums_albumId_photos", "post_albums_albumId_photos",
    "post_object_links", "post_object_uploads", "get_albums_albumId_duplicates", "post_webhooks", "patch_webhooks_webhookId",
    "get_webhooks_webhookId_deliveries", "post_webhooks_webhookId_replay", "post_objects", "post_albums",
    "patch_albums_albumId", "post_albums_albumId_shares",
    "post_session_links", "post_albums_albumId_fingerprint", "post_albums_albumId_reprocess",
    "get_webhooks", "get_media_tasks_taskId_why", "get_audit", "get_dead_letters"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 413, 415, 422]
"""


class _Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


async def _run(context: Any, given: _Anything) -> None: ...


@pytest.mark.timeout(300)
@pytest.mark.parametrize("who", ["admin", "operator"])
async def test_the_api_keeps_its_document(
    who: str, database_url: str, redis_url: str, world: World, tmp_path: Path
) -> None:
    registry = Registry([Processor(queue, _Anything, _run) for queue in QUEUES])
    limits = changed(QUICK_LIMITS, body_timeout_seconds=30)
    async with open_api(database_url, redis_url, tmp_path, registry=registry, limits=limits) as api:
        async with api.client(world.ours.editor) as editor:  # an ended task: its event stream ends, too
            task = (await editor.post("media-tasks", json=batch(3))).json()["id"]
            await editor.post(f"media-tasks/{task}/cancel")
            stage = Stage(api, world, editor)
            album = await stage.album()
            photo = await stage.photo(album)
            file = (await stage.picture(album, photo)).rpartition("/")[2]
        config = tmp_path / "schemathesis.toml"
        config.write_text(CONFIG.format(task=task, album=album, photo=photo, file=file))
        token = world.operator if who == "operator" else world.ours.admin
        arguments = [
            *("-m", "schemathesis.cli", "--config-file", str(config), "run", str(DOCUMENT), "--url", api.url),
            *("-H", f"Authorization: Bearer {token}", "--phases", "examples,coverage,fuzzing"),
            *(
                "--max-time",
                str(SECONDS if who == "admin" else SECONDS // 3),
                "--max-examples",
                "15",
                "--seed",
                "1",
                "--generation-database",
                "none",
            ),
            *("--continue-on-failure", "--no-color", "--warnings", "off", "--request-timeout", "20"),
        ]
        if who == "operator":
            arguments += ["--include-tag", "Operator"]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
        )
        output, _ = await process.communicate()
    report = output.decode(errors="replace")
    assert process.returncode == 0, report[-20000:]
    counted = re.search(r"(\d+) generated, \1 passed", report)
    assert counted is not None and int(counted[1]) >= 20, report
