"""The suite against our own API, with a worker, and restarted in mid-flight."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.support.processes import Process, Processes, run_lingxi
from tests.support.waiting import wait_until_sync

ALL_RULES_SECONDS = 280


class Restarter:
    """Restarts the API each time that the file `wanted` appears, and says so by the file `done`."""

    def __init__(self, processes: Processes, env: dict[str, str], folder: Path) -> None:
        self._processes, self._env = processes, env
        self.wanted, self.done = folder / "wanted", folder / "done"
        self.api = self.start()
        self.exit_codes: list[int] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def command(self) -> str:
        """A shell command that returns when the API serves again."""
        return f'touch "{self.wanted}" && until [ -e "{self.done}" ]; do sleep 0.05; done'

    def start(self) -> Process:
        api = self._processes.lingxi("api", env=self._env)
        wait_until_sync(lambda: _answers(self._env["LINGXI_PORT"]), 30, "the API answers")
        return api

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.02):
            if self.wanted.exists():
                self.wanted.unlink()
                self.exit_codes.append(self.api.stop())
                self.api = self.start()
                self.done.touch()


def _answers(port: str) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/health/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.portable
@pytest.mark.timeout(ALL_RULES_SECONDS + 60)
async def test_the_api_passes_every_rule(
    processes: Processes, database_url: str, redis_url: str, tmp_path: Path, unused_tcp_port: int
) -> None:
    port = str(unused_tcp_port)
    env = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "LINGXI_DATA_DIR": str(tmp_path / "data"),
        "LINGXI_PORT": port,
        "QUEUE": "demo,photo",
    }
    assert run_lingxi("workspace", "create", "conform", env=env).returncode == 0
    made = run_lingxi("token", "create", "--workspace", "conform", "--role", "editor", "--name", "c", env=env)
    token = made.stdout.strip().splitlines()[-1]
    processes.lingxi("worker", env=env)
    restarter = Restarter(processes, env, tmp_path)
    suite = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lingxi.conformance", f"http://127.0.0.1:{port}",
        "--json", "--at-once", "4", "--restart-command", restarter.command,
        env={"LINGXI_TOKEN": token, "PYTHONPATH": "src", "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(ALL_RULES_SECONDS):
            output, _ = await suite.communicate()
    finally:
        restarter.stop()
        if suite.returncode is None:
            suite.kill()
    summary = json.loads(output)
    assert {
        name: rule["why"] for name, rule in summary["rules"].items() if rule["failed"] or not rule["tried"]
    } == {}
    assert (suite.returncode, summary["ok"]) == (0, True)
    assert restarter.exit_codes == [0]
    assert token not in restarter.api.log() and "token=" not in restarter.api.log()
