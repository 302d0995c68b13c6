"""Viewers whose network is gone: no packet tells the server, and what it kept for them is given back all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.processes import Processes, run_lingxi
from tests.support.programs import cannot, need_program
from tests.support.waiting import wait_until

STREAMS = 200
FREED_SECONDS = 120.0
HERE, THERE = "10.213.77.1", "10.213.77.2"
VIEWERS = """
import signal, socket, sys
signal.alarm(600)  # ended with the test; by itself if that was killed
host, port, path, token, count = sys.argv[1:]
opened = []
for _ in range(int(count)):
    stream = socket.create_connection((host, int(port)))
    stream.sendall(f"GET {path} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n".encode())
    told = b""
    while b"event: snapshot" not in told:
        told += stream.recv(65536)
    opened.append(stream)
signal.pause()
"""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A network namespace that reaches this machine by a cable of its own."""

    name: str

    def run(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *command]

    def cut(self) -> None:
        """From here on no packet comes or goes: nobody sends a FIN."""
        subprocess.run(self.run("ip", "link", "set", "cable", "down"), check=True)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    need_program("ip", "to lay a cable between two networks")
    name, end = f"lingxi-{os.getpid()}", f"lx{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        cannot("this user may make no network namespace")
    there = Elsewhere(name)
    try:
        for command in (
            ["ip", "link", "add", end, "type", "veth", "peer", "name", "cable", "netns", name],
            ["ip", "address", "add", f"{HERE}/30", "dev", end],
            ["ip", "link", "set", end, "up"],
            there.run("ip", "address", "add", f"{THERE}/30", "dev", "cable"),
            there.run("ip", "link", "set", "cable", "up"),
        ):
            subprocess.run(command, check=True)
        yield there
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_viewers_whose_network_is_gone_are_let_go(
    elsewhere: Elsewhere,
    processes: Processes,
    database_url: str,
    redis_url: str,
    tmp_path: Path,
    unused_tcp_port: int,
) -> None:
    env = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "LINGXI_DATA_DIR": str(tmp_path / "data"),
        "LINGXI_HOST": HERE,
        "LINGXI_PORT": str(unused_tcp_port),
        "LINGXI_ALLOWED_HOSTS": HERE,
    }
    assert run_lingxi("workspace", "create", "guests", env=env).returncode == 0
    made = run_lingxi("token", "create", "--workspace", "guests", "--role", "editor", "--name", "a", env=env)
    token = made.stdout.strip().splitlines()[-1]
    processes.lingxi("api", env=env)
    base = f"http://{HERE}:{unused_tcp_port}/api/v1"
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http:

        async def answers() -> bool:
            try:
                return (await http.get(f"{base}/health/ready")).status_code == 200
            except httpx.TransportError:
                return False

        async def open_streams() -> float:
            lines = (await http.get(f"{base}/metrics")).text.splitlines()
            (line,) = (one for one in lines if one.startswith('lingxi_stream_connections{kind="album"}'))
            return float(line.rsplit(" ", 1)[1])

        await wait_until(answers, 60)
        album = (await http.post(f"{base}/albums", json={"name": "Wedding"})).json()["id"]
        path = f"/api/v1/albums/{album}/events"
        where = (HERE, str(unused_tcp_port), path, token, str(STREAMS))
        processes.start(elsewhere.run(sys.executable, "-c", VIEWERS, *where), env={}, name="viewers")

        async def all_watch() -> bool:
            return await open_streams() == STREAMS

        async def nobody_watches() -> bool:
            return await open_streams() == 0

        await wait_until(all_watch, 60)
        elsewhere.cut()
        await wait_until(nobody_watches, FREED_SECONDS)
