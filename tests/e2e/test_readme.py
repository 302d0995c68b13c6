"""What README tells the reader to type works as it stands."""

import json
import os
import re
import subprocess
from pathlib import Path

from tests.e2e.conftest import Up
from tests.support.servers import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def shell_block(word: str) -> str:
    """The one fenced block that contains `word`."""
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if word in block]
    return str(block)


def type_in(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_submits_watches_and_retries(up: Up, tmp_path: Path) -> None:
    (tmp_path / ".lingxi").symlink_to(up.data_dir)
    block = shell_block("curl")
    assert "http://127.0.0.1:3000" in block
    submit, asked, rest = block.replace("http://127.0.0.1:3000", up.url).partition("task=…")
    assert asked
    variables = "".join(line for line in submit.splitlines(True) if line.startswith(("api=", "auth=")))

    task = json.loads(type_in(submit, tmp_path))
    assert json.loads(type_in(submit, tmp_path))["id"] == task["id"], "sent twice: the same task"

    watch, steer = (part.strip() for part in re.sub(r"^.*# that id\n", "", rest).split("\n", 1))
    frames = type_in(f"{variables}task={task['id']}\n{watch}", tmp_path)
    (end,) = re.findall(r"event: end\ndata: (.*)", frames)
    assert json.loads(end)["status"] == "partially_failed"

    answers = type_in(
        f"{variables}task={task['id']}\n" + steer.replace('"$auth"', '"$auth" -w "\\n"'), tmp_path
    )
    failed, cancelled, retried = (json.loads(line) for line in answers.splitlines())
    assert [item["ref"] for item in failed["items"]] == ["d"]
    assert cancelled["code"] == 40901, "it has ended already"
    assert (retried["id"], retried["round"]) == (task["id"], 2)


def test_every_command_of_run_is_in_its_help() -> None:
    helped = subprocess.run([str(ROOT / "run"), "help"], capture_output=True, text=True, check=True).stdout
    for command in set(re.findall(r"\./run ([a-z-]+)", README)):
        assert re.search(rf"\b{command}\b", helped) or command in (
            "list",
            "show",
            "cancel",
            "retry-failed",
            "album",
            "publish",
            "help",
        )


def test_every_page_that_it_names_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
