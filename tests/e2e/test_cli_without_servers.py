"""The command line where nothing runs: help, wrong use, nobody there, and settings that are wrong."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lingxi.cli.options import DEFAULT_DATA_DIR, DEFAULT_URL
from lingxi.settings import Settings
from tests.e2e.conftest import last_json
from tests.support.processes import environment, run_lingxi

TASK = "0198c0de-0000-7000-8000-000000000000"
NOWHERE = {"LINGXI_URL": "http://127.0.0.1:9"}
COMMANDS = [
    *("up", "demo", "api", "worker", "dispatcher", "migrate"),
    *("submit", "watch", "list", "show", "cancel", "priority", "retry-failed"),
    *("check", "conform", "token", "workspace", "invariants", "why", "status", "storage", "webhook"),
    *("dead-letters", "queue", "workers", "prune"),
    *("album", "publish", "processors", "new-processor", "verify-archive", "archive-keys"),
    "export-audit",
]


def error_line(run: subprocess.CompletedProcess[str]) -> str:
    """The one sentence on stderr."""
    lines = run.stderr.splitlines()
    assert len(lines) == 1, run.stderr
    assert lines[0].startswith("lingxi: ")
    return lines[0]


def test_help_names_every_command_and_the_exit_codes() -> None:
    run = run_lingxi("--help", env={})
    assert run.returncode == 0
    listed = {line.split()[0] for line in run.stdout.partition("Commands:")[2].splitlines() if line.strip()}
    assert listed == set(COMMANDS)
    assert "Exit codes" in run.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    run = run_lingxi(command, "--help", env={})
    assert run.returncode == 0
    assert f"lingxi {command}" in run.stdout
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "--nonsense"], "--nonsense"),
        (["show"], "TASK"),
        (["submit"], "JSON file"),
        (["submit", "--priority", "soon", "-"], "--priority"),
        (["submit", "--metadata", "[1]", "-"], "--metadata"),
        (["submit", "no-such-file.json"], "no-such-file.json"),
        (["submit", "--type", "media:verify", "no-such-file.jpg"], "no-such-file.jpg"),
        (["submit", "a.json", "b.json"], "--type"),
        (["list", "--url", "localhost:3000"], "--url"),
        (["token", "create", "--role", "king"], "--role"),
        (["token", "revoke", "lx_secret"], "UUID"),
    ],
)
def test_wrong_use_is_2_and_one_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    run = run_lingxi(*arguments, env=NOWHERE, cwd=tmp_path)
    assert run.returncode == 2
    assert words in error_line(run)
    assert run.stdout == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a":' * 3000 + "1" + "}" * 3000, "\ud800"])
def test_a_task_that_is_no_json_object(text: str, tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    file.write_bytes(text.encode(errors="surrogatepass"))
    run = run_lingxi("submit", str(file), env=NOWHERE)
    assert (run.returncode, "JSON" in error_line(run)) in [(2, True), (3, False)]


def test_no_command_at_all_shows_the_help() -> None:
    run = run_lingxi(env={})
    assert run.returncode == 2
    assert "Commands:" in run.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["show", TASK],
        ["watch", TASK, "--patience", "0.5"],
        ["cancel", TASK],
        ["retry-failed", TASK],
        ["submit", "-"],
    ],
)
def test_nobody_there_is_3(arguments: list[str]) -> None:
    run = run_lingxi(
        *arguments, "--json", env=NOWHERE, text_in='{"type":"demo:drill","items":[{"input":{}}]}'
    )
    assert run.returncode == 3
    assert last_json(run.stdout)["error"]["exitCode"] == 3
    error_line(run)


def test_an_error_with_json_is_one_object_on_the_last_line() -> None:
    run = run_lingxi("list", "--json", env=NOWHERE)
    error = last_json(run.stdout)["error"]
    assert error["code"] is None
    assert "Nothing answers at http://127.0.0.1:9" in error["message"]
    assert error["message"] in run.stderr


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL"),
        ({"LINGXI_PORT": "many"}, "LINGXI_PORT"),
        ({"QUEUE": "nonsense"}, "known are: photo"),
        ({"LINGXI_FAILPOINTS": "worker.after_commit=kill"}, "LINGXI_TESTING"),
        ({}, "DATABASE_URL is not set"),
    ],
)
@pytest.mark.parametrize("command", ["api", "worker", "dispatcher", "migrate"])
def test_a_wrong_setting_is_6_and_named(
    command: str, env: dict[str, str], words: str, tmp_path: Path
) -> None:
    run = run_lingxi(command, env={**env, "LINGXI_DATA_DIR": str(tmp_path)})
    assert run.returncode == 6
    assert words in error_line(run)


@pytest.mark.parametrize("arguments", [["migrate"], ["token", "list"], ["workspace", "create", "x"]])
def test_an_unreachable_database_is_3(arguments: list[str], tmp_path: Path) -> None:
    urls = {"DATABASE_URL": "postgresql://u:secret@127.0.0.1:9/x", "REDIS_URL": "redis://127.0.0.1:9"}
    run = run_lingxi(*arguments, "--json", env={**urls, "LINGXI_DATA_DIR": str(tmp_path)})
    assert run.returncode == 3
    assert last_json(run.stdout)["error"]["code"] == 50003
    assert "PostgreSQL cannot be used" in error_line(run)
    assert "secret" not in run.stderr


def test_check_finds_servers_that_are_away(tmp_path: Path) -> None:
    urls = {"DATABASE_URL": "postgresql://u:secret@127.0.0.1:9/x", "REDIS_URL": "redis://:secret@127.0.0.1:9"}
    run = run_lingxi("check", "--json", env={**urls, "LINGXI_DATA_DIR": str(tmp_path)})
    told = last_json(run.stdout)
    assert (run.returncode, told["ok"]) == (1, False)
    problems = {finding["part"] for finding in told["findings"] if finding["level"] == "problem"}
    assert problems == {"PostgreSQL", "Redis"}
    assert all(finding["mend"] for finding in told["findings"] if finding["level"] == "problem")
    assert "secret" not in run.stdout


def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = run_lingxi("up", "--port", str(port), env={"LINGXI_DATA_DIR": str(tmp_path / "data")})
    assert run.returncode == 6
    assert f"127.0.0.1:{port}" in error_line(run)
    assert not (tmp_path / "data" / "postgres").exists()


def test_output_that_nobody_reads_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "lingxi", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(10)


def test_text_that_the_terminals_encoding_lacks(tmp_path: Path) -> None:
    run = run_lingxi(
        "submit",
        "灵犀.json",
        "--json",
        env={**NOWHERE, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
    )
    assert run.returncode == 2
    assert "\\u7075" in run.stdout
    json.loads(run.stdout)


def test_completion_is_offered_for_shells() -> None:
    # Without this, typer looks for a shell among the processes above us, and what runs the tests need not be one.
    run = run_lingxi("--show-completion", "bash", env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert run.returncode == 0
    assert "_LINGXI_COMPLETE" in run.stdout


def test_the_defaults_are_those_of_the_settings() -> None:
    settings = Settings.model_fields
    assert settings["lingxi_data_dir"].default == DEFAULT_DATA_DIR
    assert f"http://{settings['lingxi_host'].default}:{settings['lingxi_port'].default}" == DEFAULT_URL


def test_the_start_is_quick() -> None:
    """What is slow to import is not imported before a command needs it."""
    script = (
        "import sys; from lingxi.cli.app import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True
    )
    loaded = set(run.stderr.split())
    assert "typer" in loaded
    assert not loaded & {
        "fastapi",
        "asyncpg",
        "pydantic",
        "redis",
        "httpx",
        "rich.progress",
        "alembic",
        "bullmq",
    }


def test_the_exit_codes_are_documented() -> None:
    from lingxi.cli import exits

    assert exits.__doc__ is not None
    for code in exits.Exit:
        assert f"| {int(code)} |" in exits.__doc__
    assert os.EX_SOFTWARE == exits.Exit.INTERNAL
