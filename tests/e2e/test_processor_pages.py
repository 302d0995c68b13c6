"""The pages of processors: every command in them runs, every result in them is one, every field is in them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from lingxi.domain.errors import ITEM_CODES
from lingxi.processors.demo_drill import Input as Drill
from lingxi.processors.export_archive import ArchiveInput, ArchiveResult
from lingxi.processors.media_probe import ProbeInput, ProbeResult
from lingxi.processors.media_verify import VerifyInput, VerifyResult
from lingxi.processors.photo_fingerprint import FingerprintInput, FingerprintResult
from lingxi.processors.photo_process import PhotoInput, PhotoResult
from lingxi.processors.video_poster import PosterInput, PosterResult
from lingxi.processors.video_transcode import TranscodeInput, TranscodeResult
from tests.e2e.conftest import Up
from tests.integration.webhooks.receiver import Received, Receiver
from tests.support.clips import Sound, clip
from tests.support.pictures import picture
from tests.support.processes import environment
from tests.support.programs import need_program
from tests.support.waiting import wait_until_sync

ROOT = Path(__file__).resolve().parents[2]


class DrillResult(BaseModel):
    """What a drill with an effect ends with."""

    attempt: int
    first: bool


MODELS: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "demo-drill": (Drill, DrillResult),
    "export-archive": (ArchiveInput, ArchiveResult),
    "media-probe": (ProbeInput, ProbeResult),
    "media-verify": (VerifyInput, VerifyResult),
    "photo-fingerprint": (FingerprintInput, FingerprintResult),
    "photo-process": (PhotoInput, PhotoResult),
    "video-poster": (PosterInput, PosterResult),
    "video-transcode": (TranscodeInput, TranscodeResult),
}


def page(name: str) -> str:
    return (ROOT / "docs" / "processors" / f"{name}.md").read_text("utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has at hand: a video, a photo and `lingxi`."""
    made = tmp_path_factory.mktemp("reader")
    data = clip(container="mov", sound=Sound(), rotation=(270.0, False, False))
    (made / "clip.mov").write_bytes(data)
    (made / "another.mov").write_bytes(data)
    (made / "photo.jpg").write_bytes(picture("jpeg", 300, 200, orientation=6))
    (made / "again.jpg").write_bytes(picture("jpeg", 300, 200, orientation=6, interlace=True))
    program = made / "bin" / "lingxi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lingxi "$@"\n')
    program.chmod(0o755)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_every_command_of_a_page_runs(up: Up, folder: Path, name: str) -> None:
    need_program("curl", "for the pages' examples")
    env = {**environment(**up.env), "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    script = "\n".join(blocks(name, "sh"))
    done = subprocess.run(
        ["sh", "-eu"], input=script, cwd=folder, env=env, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    ends = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("data: {")]
    assert ends[-1]["status"] == "succeeded", done.stdout[-3000:]
    assert re.search(r"^succeeded: (\d) of \1 done$", done.stdout, re.MULTILINE), done.stdout[-2000:]


@pytest.mark.parametrize("name", MODELS)
def test_every_result_of_a_page_is_one(name: str) -> None:
    shown = blocks(name, "json")
    assert shown
    for text in shown:
        result = MODELS[name][1].model_validate_json(text)
        assert json.loads(result.model_dump_json(by_alias=True)) == json.loads(text)


@pytest.mark.parametrize("name", MODELS)
def test_every_field_and_code_is_on_the_page(name: str) -> None:
    text = page(name)
    for alias in MODELS[name][0].model_json_schema(by_alias=True)["properties"]:
        assert f"| `{alias}` |" in text
    codes: Any = re.findall(r"`([a-z]+_[a-z_]+)`", text.partition("## Codes")[2].partition("## Examples")[0])
    assert codes
    assert set(codes) <= set(ITEM_CODES)


def test_a_task_that_ends_is_told_to_an_endpoint_and_the_telling_is_watched(up: Up) -> None:
    """webhook:deliver, which nobody submits to, through HTTP, dispatcher, worker and stream."""
    headers = {"Authorization": f"Bearer {up.token}"}
    with (
        Receiver() as receiver,
        httpx.Client(base_url=f"{up.url}/api/v1", headers=headers, trust_env=False, timeout=30) as http,
    ):
        made = http.post("/webhooks", json={"url": receiver.url, "events": ["task.ended"]})
        assert made.status_code == 201, made.text
        hook, secret = made.json()["id"], made.json()["secret"]
        task = http.post("/media-tasks", json={"type": "demo:drill", "items": [{"input": {}}]}).json()["id"]

        def told() -> list[Received]:  # others' tasks may just have ended too
            return [one for one in receiver.received if one.verified_by(secret)["data"]["taskId"] == task]

        (got,) = wait_until_sync(told, 60, "it is told") or []
        assert got.verified_by(secret)["data"]["status"] == "succeeded"
        delivery = delivered(http, hook)[got.id]
        with http.stream("GET", f"/media-tasks/{delivery['taskId']}/events?lastEventId=0") as stream:
            frames = [line for line in stream.iter_lines() if line.startswith(("event: ", "data: "))]
        end = json.loads(frames[-1].removeprefix("data: "))
        assert (frames[-2], end["type"], end["status"]) == ("event: end", "webhook:deliver", "succeeded")
        delivery = delivered(http, hook)[got.id]
        assert (delivery["state"], delivery["attempts"]) == ("delivered", 1)
        assert (delivery["responseStatus"], delivery["responseBody"]) == (200, "thank you")
        http.delete(f"/webhooks/{hook}")
        ended = {one.verified_by(secret)["data"]["type"] for one in receiver.received}
        assert "webhook:deliver" not in ended, "the end of a telling is told to nobody"


def delivered(http: httpx.Client, hook: str) -> dict[str, Any]:
    """The endpoint's deliveries by event."""
    return {one["eventId"]: one for one in http.get(f"/webhooks/{hook}/deliveries").json()["deliveries"]}
