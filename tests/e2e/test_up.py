"""`lingxi up`: what it starts, how it ends, and that nothing outlives it."""

import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest

from tests.e2e.conftest import Up, last_json, start_up
from tests.e2e.leftovers import processes_of
from tests.support.processes import Processes
from tests.support.waiting import wait_until_sync

END_SECONDS = 40.0


def assert_nothing_left(folder: Path, timeout_seconds: float = END_SECONDS) -> None:
    wait_until_sync(lambda: not processes_of(folder), timeout_seconds, f"left: {processes_of(folder)}")


def children_named(folder: Path, *words: str) -> list[int]:
    """Pids of processes on this folder whose command line has all these words as arguments."""
    return [pid for pid, command in processes_of(folder).items() if set(words) <= set(command.split())]


def test_it_starts_all_and_ends_all(processes: Processes, tmp_path: Path) -> None:
    data = tmp_path / "data with spaces"
    up = start_up(processes, data)
    assert up.run("list", "--json").returncode == 0
    for name in ("token", "running.json"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    assert (data / "token").read_text().strip() == up.token
    up.process.signal(signal.SIGINT)
    assert up.process.wait() == 0
    assert processes_of(data) == {}
    assert not (data / "running.json").exists()

    again = start_up(processes, data)
    assert again.token == up.token
    assert again.process.stop() == 0
    assert processes_of(data) == {}


@pytest.mark.parametrize("moment", ["starting PostgreSQL", "starting Valkey", "migrated the database"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_end_may_be_asked_for_at_any_moment(
    processes: Processes, tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    process = processes.lingxi("up", "--port", "0", env={"LINGXI_DATA_DIR": str(data)})
    process.wait_for_log(moment)
    process.signal(number)
    assert process.wait() == 130
    assert processes_of(data) == {}
    assert "Traceback" not in process.log()


def test_a_killed_up_takes_everything_with_it(processes: Processes, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = start_up(processes, data)
    assert len(processes_of(data)) > 5
    up.process.kill()
    assert_nothing_left(data)
    again = start_up(processes, data)
    assert again.run("list", "--json").returncode == 0
    assert again.process.stop() == 0


def test_a_crashed_child_is_started_again(processes: Processes, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = start_up(processes, data)
    (api,) = children_named(data, "lingxi", "api")
    os.kill(api, signal.SIGKILL)
    wait_until_sync(lambda: children_named(data, "lingxi", "api") not in ([], [api]), 20)
    wait_until_sync(lambda: up.run("list", "--json").returncode == 0, 30)
    assert up.process.stop() == 0


@pytest.mark.parametrize("program", ["postgres", "valkey-server"])
def test_a_server_that_died_is_started_again(processes: Processes, tmp_path: Path, program: str) -> None:
    data = tmp_path / "data"
    up = start_up(processes, data)
    (server,) = [pid for pid, command in processes_of(data).items() if re.match(rf"/.*/{program} ", command)]
    os.kill(server, signal.SIGKILL)
    wait_until_sync(lambda: server not in processes_of(data), 20)
    body = '{"type":"demo:drill","items":[{"input":{}}]}'

    def works() -> bool:
        return up.run("submit", "-", "--watch", text_in=body).returncode == 0

    wait_until_sync(works, 60, "a task is done again")
    assert up.process.stop() == 0
    assert processes_of(data) == {}


def test_up_on_servers_of_ones_own(
    processes: Processes, tmp_path: Path, empty_database_url: str, redis_url: str
) -> None:
    data = tmp_path / "data"
    up = start_up(processes, data, DATABASE_URL=empty_database_url, REDIS_URL=redis_url)
    assert (
        up.run("submit", "-", "--watch", text_in='{"type":"demo:drill","items":[{"input":{}}]}').returncode
        == 0
    )
    assert not (data / "postgres").exists()
    assert up.process.stop() == 0
    assert processes_of(data) == {}


def test_a_second_up_on_the_folder_is_refused(up: Up) -> None:
    run = up.run("up", "--port", "0")
    assert run.returncode == 6
    assert "in use by another process" in run.stderr
    assert up.run("list", "--json").returncode == 0


def test_commands_beside_the_database_find_its_servers(up: Up) -> None:
    told = last_json(up.run("token", "list", "--json").stdout)
    assert [token["name"] for token in told["tokens"]] == ["lingxi up"]
    check = up.run("check", "--json")
    assert check.returncode == 0, check.stdout
    assert {finding["level"] for finding in json.loads(check.stdout)["findings"]} <= {"ok", "note"}
