"""The page of webhook:deliver: its commands run, its receiver receives, its result is one, its codes are all there are."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lingxi.domain.errors import ITEM_CODES
from lingxi.processors.outgoing.post import Poster
from lingxi.processors.registry import Registry
from lingxi.processors.webhook_deliver import DeliverInput, DeliverResult, WebhookDeliver, signature_headers
from lingxi.services.webhook_endpoints import new_secret
from tests.integration.api.harness import Api, make_world, open_api
from tests.integration.webhooks.conftest import LOOPBACK
from tests.support.processes import environment
from tests.support.programs import need_program
from tests.support.waiting import wait_until

PAGE = (Path(__file__).resolve().parents[3] / "docs/processors/webhook-deliver.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
async def api(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    deliver = WebhookDeliver(lambda: None, Poster(LOOPBACK)).processor()  # type: ignore[arg-type,return-value]
    async with open_api(database_url, redis_url, tmp_path, registry=Registry([deliver])) as opened:
        yield opened


async def test_every_command_of_the_page_runs(api: Api, pool: object, tmp_path: Path) -> None:
    need_program("curl", "for the page's examples")
    world = await make_world(pool)  # type: ignore[arg-type]
    program = tmp_path / "bin" / "lingxi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lingxi "$@"\n')
    program.chmod(0o755)
    env = environment(LINGXI_URL=api.url, LINGXI_TOKEN=world.ours.admin)
    env["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    running = await asyncio.create_subprocess_exec(
        "sh", "-eu", "-c", "\n".join(blocks("sh")), cwd=tmp_path, env=env, stdout=-1, stderr=-1
    )
    out, err = await running.communicate()
    said = out.decode()
    assert running.returncode == 0, said + err.decode()
    assert said.count("secret: whsec_") == 2
    assert "disabled (asked)" in said and "There was nothing to deliver again." in said
    assert "No deliveries." in said and "deleted " in said


async def test_its_receiver_receives_what_is_signed_and_nothing_else(tmp_path: Path) -> None:
    (code,) = blocks("python")
    script = tmp_path / "receiver.py"
    script.write_text(code)
    secret, body = new_secret(), json.dumps({"v": 1, "type": "task.ended", "data": {"taskId": "t"}})
    probe = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    env = environment(WEBHOOK_SECRET=secret, PORT=str(port))
    running = await asyncio.create_subprocess_exec(
        sys.executable, str(script), env=env, stdout=-1, stderr=asyncio.subprocess.DEVNULL
    )

    async def send(headers: dict[str, str]) -> int:
        return (await Poster(LOOPBACK).post(f"http://127.0.0.1:{port}/", headers, body.encode())).status

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await wait_until(listens, 30)
        now = datetime.now(UTC)
        for _ in range(2):
            assert await send(signature_headers((new_secret(), secret), "one", body, now)) == 204
        assert await send(signature_headers((new_secret(),), "two", body, now)) == 401
        assert running.stdout is not None
        assert await running.stdout.readline() == b"task.ended {'taskId': 't'}\n"
    finally:
        running.kill()
        rest, _ = await running.communicate()
    assert rest == b"", "an id that was seen is dropped"


def test_its_result_is_one_and_every_field_and_code_is_on_it() -> None:
    (shown,) = blocks("json")
    result = DeliverResult.model_validate_json(shown)
    assert json.loads(result.model_dump_json(by_alias=True)) == json.loads(shown)
    for alias in DeliverInput.model_json_schema(by_alias=True)["properties"]:
        assert f"| `{alias}` |" in PAGE
    table = PAGE.partition("## Codes")[2].partition("## Examples")[0]
    codes = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    ours = {code for code in ITEM_CODES if code.startswith(("endpoint_", "delivery_", "address_"))}
    assert codes == {*ours, "database_unavailable"} and len(ours) == 7
