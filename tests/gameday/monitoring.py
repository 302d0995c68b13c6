"""Debian's Prometheus and Alertmanager with the rules and routes of `infra/monitoring`, scaled down in time; and who is paged."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.ground import free_port
from tests.gameday.runbook import ROOT
from tests.support.programs import need_program
from tests.support.waiting import wait_until

FOLDER = ROOT / "infra/monitoring"
_UNITS = {"s": 1, "m": 60, "h": 3600}
_SHORTEST_SECONDS = 2
_CANARY_SECONDS = 40  # it is taken back with the last heartbeat, which lives for 30 s
_SHORTEST_WINDOW_SECONDS = 5  # five scrapes: a rate needs two


def scaled_rules(text: str, scale: float) -> str:
    """Rules whose `for`, windows and thresholds in seconds are `scale` times shorter.

    A heartbeat's own limits stay: the key's 30 s are no window of Prometheus.
    """

    def seconds(match: re.Match[str]) -> float:
        return int(match["n"]) * _UNITS[match["unit"]] / scale

    def waits(match: re.Match[str]) -> str:
        return f"{match['what']}{max(_SHORTEST_SECONDS, round(seconds(match)))}s"

    def window(match: re.Match[str]) -> str:
        return f"{match['what']}{max(_SHORTEST_WINDOW_SECONDS, round(seconds(match)))}s"

    text = re.sub(r"(?P<what>\bfor: )(?P<n>\d+)(?P<unit>[smh])\b", waits, text)
    text = re.sub(r"(?P<what>\[|\boffset )(?P<n>\d+)(?P<unit>[smh])\b", window, text)

    def threshold(match: re.Match[str]) -> str:
        shortest = _CANARY_SECONDS if "canary" in match["what"] else _SHORTEST_WINDOW_SECONDS
        return f"{match['what']}{max(shortest, round(int(match['n']) / scale))}"

    return re.sub(r"(?P<what>\w+_seconds\)? > )(?P<n>\d{3,})", threshold, text)


@dataclass(slots=True)
class Pages:
    """What Alertmanager has told: `firing` holds each alert by its labels, `told` every first telling with its time."""

    firing: dict[str, str] = field(default_factory=dict)
    told: list[tuple[float, str]] = field(default_factory=list)

    def take(self, alerts: list[dict[str, Any]]) -> None:
        for alert in alerts:
            key = json.dumps(alert["labels"], sort_keys=True)
            if alert["status"] != "firing":
                self.firing.pop(key, None)
            elif key not in self.firing:
                self.firing[key] = alert["labels"]["alertname"]
                self.told.append((time.monotonic(), alert["labels"]["alertname"]))

    def since(self, moment: float) -> set[str]:
        """Names of all that was told of since then."""
        return {name for at, name in self.told if at >= moment}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One notification a connection: the receivers of `alertmanager.yml`."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = re.search(r"content-length: (\d+)", head)
            self.take(json.loads(await reader.readexactly(int(length[1]) if length else 0))["alerts"])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        finally:
            writer.close()


@dataclass(slots=True)
class Monitoring:
    """`prometheus` is the address of its API."""

    prometheus: str
    pages: Pages
    client: httpx.AsyncClient

    async def ask(self, path: str, **query: str) -> Any:
        """The data of an answer; None while Prometheus starts."""
        try:
            answer = await self.client.get(f"{self.prometheus}/api/v1/{path}", params=query)
        except httpx.TransportError:
            return None
        return answer.json()["data"] if answer.status_code == 200 else None

    async def active(self) -> set[str] | None:
        """Names of rules that are not quiet, those that inhibited ones hide among them; None when Prometheus does not say."""
        data = await self.ask("alerts")
        return None if data is None else {one["labels"]["alertname"] for one in data["alerts"]}

    async def idle(self, timeout_seconds: float) -> None:
        """Until what a fault before has left waiting is done: else it would be the backlog of the next one."""

        async def fact() -> bool:
            data = await self.ask("query", query="max(lingxi_queue_oldest_waiting_seconds) < 5")
            return bool(data and data["result"])

        await wait_until(fact, timeout_seconds, "nothing waits any more")

    async def quiet(self, timeout_seconds: float) -> None:
        """Until no rule is on its way, and nobody is told of anything any more."""

        async def fact() -> bool:
            return await self.active() == set() and not self.pages.firing

        await wait_until(fact, timeout_seconds, f"all alerts are over; told of: {self.pages.firing.values()}")


@asynccontextmanager
async def monitoring(folder: Path, target: str, scale: float) -> AsyncIterator[Monitoring]:
    """Both programs, which watch `target` (host:port); ended at the end."""
    programs = [need_program("prometheus", "to watch"), need_program("prometheus-alertmanager", "to page")]
    pages = Pages()
    receiver = await asyncio.start_server(pages.serve, "127.0.0.1", 0)
    ports = [free_port(), free_port()]
    _write_configuration(folder, target, scale, ports[1], receiver.sockets[0].getsockname()[1])
    arguments = [
        [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb", "--log.level=warn"],
        [
            f"--config.file={folder}/alertmanager.yml",
            f"--storage.path={folder}/silences",
            "--cluster.listen-address=",
        ],
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for program, port, more in zip(programs, ports, arguments, strict=True):
            with (folder / f"{Path(program).name}.log").open("wb") as log:
                command = [program, f"--web.listen-address=127.0.0.1:{port}", *more]
                started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder))
        async with httpx.AsyncClient(timeout=10) as client:
            yield Monitoring(f"http://127.0.0.1:{ports[0]}", pages, client)
    finally:
        for process in started:
            process.kill()
            process.wait()
        receiver.close()


def _write_configuration(folder: Path, target: str, scale: float, alertmanager: int, receiver: int) -> None:
    """The files of `infra/monitoring`, with our addresses and shorter times; AssertionError when one is not as we know it."""
    for name in ("queue-alerts.yml", "further-alerts.yml"):
        (folder / name).write_text(scaled_rules((FOLDER / name).read_text("utf-8"), scale), "utf-8")
    for name, changes in {
        "prometheus.yml": (("127.0.0.1:3000", target), (": 15s", ": 1s"), ("127.0.0.1:9093", f"127.0.0.1:{alertmanager}")),
        "alertmanager.yml": (
            ("127.0.0.1:9099", f"127.0.0.1:{receiver}"),
            ("group_wait: 30s", "group_wait: 1s"),
            ("group_interval: 5m", "group_interval: 1s"),
        ),
    }.items():  # fmt: skip
        text = (FOLDER / name).read_text("utf-8")
        for was, becomes in changes:
            assert was in text, (name, was)
            text = text.replace(was, becomes)
        (folder / name).write_text(text, "utf-8")
