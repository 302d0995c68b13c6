"""A whole Lingxi from outside: `lingxi up` as a process, and commands run against it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Process, Processes, run_lingxi


@dataclass(frozen=True, slots=True)
class Up:
    """A running `lingxi up`."""

    process: Process
    url: str
    token: str
    data_dir: Path

    @property
    def env(self) -> dict[str, str]:
        return {"LINGXI_URL": self.url, "LINGXI_TOKEN": self.token, "LINGXI_DATA_DIR": str(self.data_dir)}

    def run(self, *arguments: str, text_in: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """`lingxi …` beside it, with no terminal."""
        return run_lingxi(*arguments, env={**self.env, **env}, text_in=text_in)


def last_json(text: str) -> dict[str, Any]:
    """The object in the last line."""
    value = json.loads(text.splitlines()[-1])
    assert isinstance(value, dict)
    return value


def start_up(processes: Processes, data_dir: Path, **env: str) -> Up:
    """Starts `lingxi up` on a free port and waits until it says that it is up."""
    process = processes.lingxi(
        "up", "--port", "0", "--processes", "1", "--json", env={"LINGXI_DATA_DIR": str(data_dir), **env}
    )
    process.wait_for_log(r'"url":"http', timeout_seconds=60)
    told = last_json(process.output())
    return Up(process, told["url"], told["token"], data_dir)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One `lingxi up` for the tests of a module, ended in order."""
    folder = tmp_path_factory.mktemp("up")
    processes = Processes(folder)
    try:
        settings = {"LINGXI_CONCURRENCY": "demo:drill=4", "GRACE_SECONDS": "3"}
        settings["WEBHOOK_ALLOWED_NETWORKS"] = "127.0.0.1"
        started = start_up(processes, folder / "data", **settings)
        yield started
        assert started.process.stop() == 0
        processes.assert_clean_logs()
        for log in (folder / "data" / "logs").glob("*.log"):
            assert "Traceback" not in log.read_text(), log
    finally:
        processes.close()
