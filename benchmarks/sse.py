"""`sse`: from a commit in PostgreSQL to the frame at each watcher; what watchers cost the database and the memory."""

import asyncio
import contextlib
import json
import pathlib
import resource
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg

from benchmarks.changer import Changer
from benchmarks.lingxi_run import Work, submit_all
from benchmarks.machine import descendants, resident_bytes
from benchmarks.options import Options
from benchmarks.processes import child
from benchmarks.report import Report
from benchmarks.servers import Servers, fresh_database, running_servers
from benchmarks.stack import ROOT, TEMPLATE, Stack, prepare_template, running_stack
from benchmarks.stats import Spread

EXCLUDES = [
    "connecting and the snapshots (before the clock starts), TLS and the network (loopback)",
    "nothing for the watchers' own process: it shares the cores with the server, so the times are rather too long",
    "workers and jobs: a client ends items by the worker's own statements and hints, one commit a change",
]
NO_PEER = "no peer: none of the job systems compared in `items` streams its changes over HTTP"


@dataclass(frozen=True, slots=True)
class Scene:
    """So many watchers spread over so many tasks, and a pace of changes over all tasks."""

    name: str
    watchers: int
    tasks: int
    changes_per_second: float
    p99_aim_ms: float
    p50_aim_ms: float | None = None
    window_seconds: float = 6.0

    @property
    def items_per_task(self) -> int:
        """Enough that no task ends in any of the windows."""
        return int(self.changes_per_second * self.window_seconds * 12 / self.tasks) + 10


SCENES = [
    Scene("1000-on-50", 1_000, 50, 48.0, p99_aim_ms=20.0, p50_aim_ms=5.0),
    Scene("1000-on-1", 1_000, 1, 5.0, p99_aim_ms=100.0),
    Scene("9000-on-1", 9_000, 1, 1.0, p99_aim_ms=500.0, window_seconds=10.0),
]
QUICK_SCENES = [Scene("20-on-5", 20, 5, 10.0, p99_aim_ms=100.0, window_seconds=1.0)]


async def run(options: Options) -> Report:
    report = Report("sse", excludes=EXCLUDES)
    _raise_file_limit()
    windows = options.runs or (1 if options.quick else 3)
    with running_servers(settings={"shared_preload_libraries": "pg_stat_statements"}) as servers:
        token = await prepare_template(servers)
        for scene in QUICK_SCENES if options.quick else SCENES:
            report.lingxi[scene.name] = await _scene(
                servers, token, scene, windows, report, judged=not options.quick
            )
        few, many = (2, 20) if options.quick else (10, 1_000)
        report.lingxi["statements"] = await _statements(
            servers, token, few, many, report, judged=not options.quick
        )
    report.say(NO_PEER)
    return report


async def _scene(
    servers: Servers, token: str, scene: Scene, windows: int, report: Report, *, judged: bool
) -> dict[str, Any]:
    async with _changing(servers, token, scene) as (stack, changer, paths, _):
        memory = _memory(stack)
        async with _watching(servers, stack, paths, scene.watchers) as output:
            each = (_memory(stack) - memory) / scene.watchers
            bounds = []
            for _ in range(windows):
                known = set(changer.commits)
                await changer.change(scene.changes_per_second, scene.window_seconds)
                await asyncio.sleep(1.0)  # the last frames are still on their way; checked below
                bounds.append(set(changer.commits) - known)
            each_after = (_memory(stack) - memory) / scene.watchers
        latencies = _latencies(output, changer, scene, bounds)
    p50, p99 = (Spread.of([one.percentile(percent) for one in latencies]) for percent in (50, 99))
    name = f"{scene.watchers:,} watchers on {scene.tasks} task{'s' * (scene.tasks > 1)}"
    report.say(
        f"{name}, {scene.changes_per_second:g} changes/s: p50 {p50.text(1)} ms, p99 {p99.text(1)} ms; "
        f"{each / 1024:.1f} kB a watcher ({each_after / 1024:.1f} after the changes)"
    )
    report.claim(f"{name}: each saw every change once, in order", "checked", True)
    if judged:
        if scene.p50_aim_ms:
            value, aim = round(p50.median, 1), scene.p50_aim_ms
            report.claim(f"{name}: p50 of at most {aim:g} ms", value, value <= aim, required=False)
        value, aim = round(p99.median, 1), scene.p99_aim_ms
        report.claim(f"{name}: p99 of at most {aim:g} ms", value, value <= aim, required=False)
    return {
        "watchers": scene.watchers,
        "tasks": scene.tasks,
        "changesPerSecond": scene.changes_per_second,
        "p50Milliseconds": p50.as_json(2),
        "p99Milliseconds": p99.as_json(2),
        "bytesPerWatcher": round(each),
        "bytesPerWatcherAfterChanges": round(each_after),
    }


async def _statements(
    servers: Servers, token: str, few: int, many: int, report: Report, *, judged: bool
) -> dict[str, Any]:
    """Statements a second of the API while nothing changes and while tasks do, with few and with many watchers."""
    found: dict[str, Any] = {}
    pace = 20.0
    for watchers in (few, many):
        scene = Scene(
            "statements", watchers, few, pace, p99_aim_ms=0.0, window_seconds=10.0 if judged else 2.0
        )
        async with (
            _changing(servers, token, scene) as (stack, changer, paths, database),
            _watching(servers, stack, paths, watchers),
        ):
            idle = await _counted(servers, database, asyncio.sleep(scene.window_seconds))
            busy = await _counted(servers, database, changer.change(pace, scene.window_seconds))
        found[str(watchers)] = {
            "idlePerSecond": round(idle / scene.window_seconds, 1),
            "changingPerSecond": round(busy / scene.window_seconds, 1),
        }
        report.say(
            f"statements a second, {watchers} watchers on {few} tasks: {found[str(watchers)]} ({pace:g} changes/s)"
        )
    if judged:
        a, b = found[str(few)], found[str(many)]
        same = all(b[key] <= a[key] * 1.1 + 0.5 for key in a)
        report.claim(f"{many} watchers cost no more statements than {few}", f"{a} and {b}", same)
    return found


@contextlib.asynccontextmanager
async def _changing(
    servers: Servers, token: str, scene: Scene
) -> AsyncIterator[tuple[Stack, Changer, list[str], str]]:
    """A running API, tasks whose items have all been started, the paths of their streams, the database's name."""
    database = "bench_sse"
    settings = {"QUEUE_WAITING_LIMIT": "1000000"}
    async with (
        fresh_database(servers, database, template=TEMPLATE) as database_url,
        running_stack(servers, database_url, token, processes=0, settings=settings) as stack,
    ):
        http = await stack.connect()
        task_ids = await submit_all(http, Work(scene.tasks, scene.items_per_task).bodies())
        http.close()
        connection = await asyncpg.connect(database_url)
        changer = Changer(connection, servers.redis_url, task_ids)
        await changer.claim_all(scene.items_per_task)
        try:
            yield stack, changer, [f"/api/v1/media-tasks/{task_id}/events" for task_id in task_ids], database
        finally:
            await changer.close()
            await connection.close()


@contextlib.asynccontextmanager
async def _watching(
    servers: Servers, stack: Stack, paths: list[str], watchers: int
) -> AsyncIterator[pathlib.Path]:
    """Watchers in a process of their own, all with a snapshot; the file has what they saw when the block has ended."""
    output = servers.root / "watched.json"
    argv = [sys.executable, "-m", "benchmarks.watchers"]
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    async with child(argv, env=env, log=servers.root / "watchers.log") as process:
        asked = {
            "port": stack.port,
            "token": stack.token,
            "paths": paths,
            "watchers": watchers,
            "output": str(output),
        }
        process.say(json.dumps(asked))
        await process.wait_ready()
        yield output
        process.say("stop")
        if await process.line() != "stopped":
            raise RuntimeError("the watchers did not stop")


def _latencies(
    output: pathlib.Path, changer: Changer, scene: Scene, windows: list[set[tuple[int, int]]]
) -> list[Spread]:
    """Milliseconds from commit to frame, a spread a window.

    RuntimeError unless each watcher saw every change of its task once, in order.
    """
    seen = json.loads(output.read_text())
    if seen["lost"]:
        raise RuntimeError(f"{seen['lost']} watchers lost their stream")
    by_watcher: dict[int, list[int]] = {number: [] for number in range(scene.watchers)}
    times: dict[tuple[int, int], list[float]] = {}
    for path, watcher, number, at in seen["frames"]:
        by_watcher[watcher].append(number)
        times.setdefault((path, number), []).append(at)
    expected = [
        sorted(number for task, number in changer.commits if task == path) for path in range(scene.tasks)
    ]
    wrong = [number for number, numbers in by_watcher.items() if numbers != expected[number % scene.tasks]]
    if wrong:
        example = by_watcher[wrong[0]]
        raise RuntimeError(
            f"{len(wrong)} watchers did not see every change once, in order; one saw {example[:20]}"
        )
    return [
        Spread.of([(at - changer.commits[change]) * 1e3 for change in window for at in times[change]])
        for window in windows
    ]


async def _counted(servers: Servers, database: str, activity: Any) -> int:
    """Statements that ran in `database` during the activity, ours left out."""
    admin = await asyncpg.connect(servers.database_url("postgres"))
    try:
        await admin.execute("create extension if not exists pg_stat_statements")
        await admin.execute("select pg_stat_statements_reset()")
        await activity
        return int(
            await admin.fetchval(
                "select coalesce(sum(calls), 0) from pg_stat_statements s"
                " join pg_database d on d.oid = s.dbid where d.datname = $1",
                database,
            )
        )
    finally:
        await admin.close()


def _memory(stack: Stack) -> int:
    return sum(resident_bytes(pid) for pid in descendants(stack.api.pid))


def _raise_file_limit() -> None:
    """9,000 sockets on each side need more open files than the usual 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
