"""The client's commands against a running Lingxi, as processes: good paths, refusals, and what they print."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Up, last_json
from tests.support.pictures import picture
from tests.support.processes import Processes, environment

UNKNOWN = "0198c0de-0000-7000-8000-000000000000"


def drill(*inputs: dict[str, Any], **extra: Any) -> str:
    items = [{"ref": f"r{number}", "input": given} for number, given in enumerate(inputs)]
    return json.dumps({"type": "demo:drill", "items": items, **extra})


def submit(up: Up, *inputs: dict[str, Any], watch: bool = False) -> dict[str, Any]:
    run = up.run("submit", "-", "--json", *(["--watch"] if watch else []), text_in=drill(*inputs))
    assert run.returncode in (0, 1), run.stderr
    return last_json(run.stdout)


def test_submit_from_stdin_and_watch_to_success(up: Up) -> None:
    run = up.run("submit", "-", "--watch", "--metadata", '{"why":"test"}', text_in=drill({}, {}))
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "succeeded: 2 of 2 done"
    assert "\x1b" not in run.stdout
    task = last_json(up.run("list", "--type", "demo:drill", "--limit", "1", "--json").stdout)["tasks"][0]
    assert (task["metadata"], task["status"]) == ({"why": "test"}, "succeeded")


def test_watch_with_json_has_a_line_a_frame_and_the_task_last(up: Up) -> None:
    task = submit(up, {"durationMs": 200, "steps": 4}, {})
    run = up.run("watch", task["id"], "--last-event-id", "0", "--json")
    assert run.returncode == 0
    *frames, ended = [json.loads(line) for line in run.stdout.splitlines()]
    assert (ended["id"], ended["status"]) == (task["id"], "succeeded")
    assert frames[-1]["event"] == "end"
    assert {frame["data"]["index"] for frame in frames if frame["event"] == "item"} == {0, 1}


def test_a_task_that_fails_is_1_and_can_be_retried(up: Up) -> None:
    task = submit(up, {"fail": "permanent", "failCode": "drill_failed"}, {}, watch=True)
    assert task["status"] == "partially_failed"
    shown = up.run("show", task["id"])
    assert shown.returncode == 0
    assert "drill_failed: the drill was told to fail" in shown.stdout
    assert "r1" in shown.stdout
    only_failed = last_json(up.run("show", task["id"], "--state", "failed", "--json").stdout)
    assert [item["ref"] for item in only_failed["items"]] == ["r0"]
    retried = up.run("retry-failed", task["id"], "--watch", "--json")
    assert retried.returncode == 1
    assert last_json(retried.stdout)["round"] == 2
    again = last_json(up.run("show", task["id"], "--json").stdout)["items"]
    assert [[attempt["round"] for attempt in item["attempts"]] for item in again] == [[1, 2], [1]]


def test_cancel_is_idempotent_and_a_finished_task_refuses_it(up: Up) -> None:
    task = submit(up, *({"durationMs": 300} for _ in range(200)))
    first = up.run("cancel", task["id"], "--json")
    assert first.returncode == 0, first.stderr
    assert last_json(first.stdout)["cancelRequested"] is True
    watched = up.run("watch", task["id"])
    assert (watched.returncode, watched.stdout.splitlines()[-1].partition(":")[0]) == (1, "cancelled")
    assert up.run("cancel", task["id"]).returncode == 0
    done = submit(up, {}, watch=True)
    refused = up.run("cancel", done["id"], "--json")
    assert refused.returncode == 4
    assert last_json(refused.stdout)["error"]["code"] == 40901
    assert "(40901)" in refused.stderr


def test_the_same_key_submits_once(up: Up) -> None:
    runs = [up.run("submit", "-", "--key", "k-1", "--json", text_in=drill({})) for _ in range(2)]
    assert len({last_json(run.stdout)["id"] for run in runs}) == 1
    other = up.run("submit", "-", "--key", "k-1", text_in=drill({}, {}))
    assert other.returncode == 4
    assert "(40902)" in other.stderr


def test_a_bad_item_is_refused_with_its_place(up: Up) -> None:
    run = up.run("submit", "-", text_in=drill({}, {"durationMs": "soon"}))
    assert run.returncode == 4
    assert "(40001)" in run.stderr
    assert "items[1]" in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        (["show", UNKNOWN], {}, 40401),
        (["watch", UNKNOWN], {}, 40401),
        (["cancel", UNKNOWN], {}, 40401),
        (["show", "../../../etc"], {}, 40401),
        (["list", "--cursor", "nonsense"], {}, 40001),
        (["list", "--status", "nonsense"], {}, 40001),
        (["list"], {"LINGXI_TOKEN": "lx_wrong"}, 40101),
    ],
)
def test_refusals_are_4_with_their_code(up: Up, arguments: list[str], env: dict[str, str], code: int) -> None:
    run = up.run(*arguments, "--json", **env)
    assert run.returncode == 4
    assert last_json(run.stdout)["error"]["code"] == code
    assert f"({code})" in run.stderr


def test_files_are_uploaded_and_verified(up: Up, tmp_path: Path) -> None:
    good = tmp_path / "good.png"
    sound = picture("png", 60, 40)
    good.write_bytes(sound)
    broken = tmp_path / "broken.png"
    broken.write_bytes(sound[: len(sound) // 2])
    run = up.run("submit", "--type", "media:verify", str(good), str(broken), "--watch", "--json")
    assert run.returncode == 1, run.stderr
    shown = last_json(up.run("show", last_json(run.stdout)["id"], "--json").stdout)
    states = {item["ref"]: item["state"] for item in shown["items"]}
    assert states == {"good.png": "succeeded", "broken.png": "failed"}
    again = up.run("submit", "--type", "media:verify", str(good), "--watch")
    assert again.returncode == 0, again.stderr


def test_a_terminal_gets_a_live_bar(up: Up) -> None:
    task = submit(up, *({"durationMs": 700} for _ in range(4)))
    told, status = in_terminal(up, "watch", task["id"])
    assert status == 0
    assert "━" in told
    assert "\x1b[" in told
    assert "succeeded: 4 of 4 done" in told


def test_ctrl_c_ends_a_watch(up: Up, processes: Processes) -> None:
    task = submit(up, {"durationMs": 8000})
    watching = processes.lingxi("watch", task["id"], env=up.env)
    watching.wait_for_log("running")
    watching.signal(signal.SIGINT)
    assert watching.wait(10) == 130
    assert watching.log() == "lingxi: Interrupted\n"
    up.run("cancel", task["id"])


def test_names_from_outside_cannot_steer_the_terminal(up: Up) -> None:
    body = json.dumps({"type": "demo:drill", "items": [{"ref": "\x1b[2Jx", "input": {}}]})
    made = last_json(up.run("submit", "-", "--json", text_in=body).stdout)
    told, _ = in_terminal(up, "show", made["id"])
    assert "\x1b[2J" not in told
    assert "x1b[2Jx" in told


def test_tokens_and_workspaces(up: Up) -> None:
    assert up.run("workspace", "create", "second").returncode == 0
    assert up.run("workspace", "create", "second", "--json").returncode == 4
    names = [space["name"] for space in last_json(up.run("workspace", "list", "--json").stdout)["workspaces"]]
    assert names == ["default", "second"]
    made = last_json(up.run("token", "create", "--workspace", "second", "--role", "viewer", "--json").stdout)
    as_viewer = {"LINGXI_TOKEN": made["token"]}
    assert last_json(up.run("list", "--json", **as_viewer).stdout)["tasks"] == []
    refused = up.run("submit", "-", text_in=drill({}), **as_viewer)
    assert (refused.returncode, "(40301)" in refused.stderr) == (4, True)
    assert made["token"] not in up.run("token", "list", "--json").stdout
    assert up.run("token", "revoke", made["id"]).returncode == 0
    assert up.run("list", **as_viewer).returncode == 4
    operator = up.run("token", "create", "--operator")
    assert operator.stdout.startswith("lx_")
    assert up.run("list", LINGXI_TOKEN=operator.stdout.strip()).returncode == 4
    assert up.run("token", "create", "--workspace", "nowhere").returncode == 4
    assert up.run("token", "revoke", UNKNOWN).returncode == 4


def in_terminal(up: Up, *arguments: str) -> tuple[str, int]:
    """Runs a command on a pseudo-terminal; answers all that it wrote, and its exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lingxi", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(**up.env, TERM="xterm-256color", COLUMNS="100", LINES="30"),
    )
    os.close(theirs)
    told = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the terminal is gone with its last process
            break
        if not part:
            break
        told += part
    os.close(ours)
    return told.decode(errors="replace"), process.wait(30)
