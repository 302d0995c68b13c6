"""`lingxi demo`, as a process: its result, its story, and that nothing outlives it whenever it is ended."""

import json
import os
import re
import signal
import stat
from pathlib import Path

import httpx
import pytest

from tests.e2e.leftovers import processes_of
from tests.support.pictures import picture
from tests.support.processes import Process, Processes
from tests.support.waiting import wait_until_sync

STORY_SECONDS = 150.0
SUMMARY = {"ok": True, "tasks": 3, "workerKilled": True, "lost": 0, "doubled": 0}


def start(processes: Processes, folder: Path, *arguments: str) -> Process:
    folder.mkdir()
    return processes.lingxi("demo", *arguments, env={"TMPDIR": str(folder)})


def assert_clean(folder: Path) -> None:
    """No process and no file is left of what the demo made below `folder`."""
    assert processes_of(folder) == {}
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_once_with_json_is_one_true_object(processes: Processes, tmp_path: Path) -> None:
    process = start(processes, tmp_path / "tmp", "--once", "--json")
    assert process.wait(STORY_SECONDS) == 0
    lines = process.output().splitlines()
    assert len(lines) == 1
    told = json.loads(lines[0])
    album = {"albumUrl", "published", "explained", "viewerFrames"}
    assert set(told) == {"ok", "tasks", "items", "workerKilled", "lost", "doubled", "seconds"} | album
    assert {name: told[name] for name in SUMMARY} == SUMMARY
    assert told["items"] > 150
    assert (told["published"], told["explained"], told["viewerFrames"]) == (54, 6, 54)
    assert "/s/" in told["albumUrl"]
    assert_clean(tmp_path / "tmp")


@pytest.mark.slow
def test_own_photographs_then_it_serves_on_until_ctrl_c(processes: Processes, tmp_path: Path) -> None:
    photos = tmp_path / "my photos"
    photos.mkdir()
    for number in range(6):
        (photos / f"{number}.jpg").write_bytes(picture("jpeg", 200 + number, 100))
    (photos / "notes.txt").write_text("no picture")
    process = start(processes, tmp_path / "tmp", "--photos", str(photos))
    process.wait_for_log("Still serving at", STORY_SECONDS)
    story = process.output()
    for words in (
        "7 photographs",
        "1 × unsupported_type",
        "killed the worker",
        "nothing was done twice",
        "notes.txt",
    ):
        assert words in story
    album = re.findall(r"whoever has this link: (\S+)", story)[0]
    assert httpx.get(album).status_code == 200
    url, token = re.findall(r"LINGXI_URL=(\S+) LINGXI_TOKEN=(\S+)", story)[0]
    answer = httpx.get(f"{url}/api/v1/media-tasks", headers={"Authorization": f"Bearer {token}"})
    assert len(answer.json()["tasks"]) == 3
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 0
    assert_clean(tmp_path / "tmp")


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        "starting PostgreSQL",
        "starting Valkey",
        "migrated",
        "up at",
        "1  60",
        "task ",
        "2  The",
        "killed the worker",
    ],
)
def test_ctrl_c_leaves_nothing_behind(processes: Processes, tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "tmp"
    process = start(processes, folder, "--once")
    process.wait_for_log(moment, STORY_SECONDS)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all in the foreground
    assert process.wait() == 130
    assert "Interrupted" in process.log()
    assert_clean(folder)


@pytest.mark.slow
def test_a_killed_demo_takes_its_processes_with_it(processes: Processes, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    process = start(processes, folder, "--once")
    process.wait_for_log("1  60", STORY_SECONDS)
    (made,) = folder.iterdir()
    secrets = [made / "token", made / "running.json"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o600, 0o600]
    process.kill()
    wait_until_sync(lambda: not processes_of(folder), 40, f"left: {processes_of(folder)}")
