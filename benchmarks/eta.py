"""`eta`: how far off is the time that a running task is said to need? The same work is replayed, asked as it runs, and judged
when it has ended."""

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.http import HttpConnection
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.servers import fresh_database, running_servers
from benchmarks.stack import QUEUE, TEMPLATE, prepare_template, running_stack
from benchmarks.stats import Spread

SLOTS = 8
ASK_SECONDS = 0.25
LAST_SECONDS = 1.0  # of a task are not judged: they are over before anybody reads it
MOST_ERROR = {"steady": 0.15, "scattered": 0.30, "slower later": 0.60}
LEAST_COVERED = 0.6  # of what is said to hold four times of five
EXCLUDES = ["the first seconds, before anything was measured: the answer is null then, and says so"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was said at a moment, both in seconds from then on, and what was true."""

    seconds: float
    low: float
    high: float
    true: float

    @property
    def error(self) -> float:
        return abs(self.seconds - self.true) / self.true

    @property
    def covered(self) -> bool:
        return self.low <= self.true <= self.high


async def run(options: Options) -> Report:
    report = Report("eta", excludes=EXCLUDES)
    items, rounds = (60, 1) if options.quick else (400, options.runs or 2)
    with running_servers() as servers:
        token = await prepare_template(servers)
        settings = {"LINGXI_CONCURRENCY": f"{QUEUE}={SLOTS}"}
        async with (
            fresh_database(servers, "bench_eta", template=TEMPLATE) as database_url,
            running_stack(servers, database_url, token, processes=1, settings=settings) as stack,
        ):
            http = await stack.connect()
            for name, most in MOST_ERROR.items():
                asked = [
                    one
                    for number in range(rounds)
                    for one in await _replay(http, _durations(name, items, seed=number))
                ]
                _judge(report, name, asked, most, judged=not options.quick)
            http.close()
    return report


def _durations(name: str, items: int, *, seed: int) -> list[int]:
    """Milliseconds of each item, about 15 s in all with SLOTS at once."""
    chance = random.Random(seed)
    match name:
        case "steady":
            return [chance.randint(250, 350) for _ in range(items)]
        case "scattered":  # most are quick, some take twenty times as long
            return [min(6_000, int(120 * chance.paretovariate(1.3))) for _ in range(items)]
        case _:
            return [200 if place < items // 2 else 400 for place in range(items)]


async def _replay(http: HttpConnection, durations: list[int]) -> list[Asked]:
    """One task to its end, asked four times a second."""
    body = {"type": QUEUE, "items": [{"input": {"durationMs": one}} for one in durations]}
    task = (await http.post("/api/v1/media-tasks", json.dumps(body).encode())).json()["id"]
    said: list[tuple[float, dict[str, Any]]] = []
    while True:
        answer = (await http.get(f"/api/v1/media-tasks/{task}?eta=true")).json()
        now = time.monotonic()
        if answer["finishedAt"] is not None:
            break
        if answer["eta"] is not None and answer["counts"]["succeeded"]:
            said.append((now, answer["eta"]))
        await asyncio.sleep(ASK_SECONDS)
    if answer["status"] != "succeeded":
        raise RuntimeError(f"the replay ended {answer['status']}")
    return [
        Asked(eta["seconds"], eta["lowSeconds"], eta["highSeconds"], now - at)
        for at, eta in said
        if now - at > LAST_SECONDS
    ]


def _judge(report: Report, name: str, asked: list[Asked], most: float, *, judged: bool) -> None:
    if not asked:
        raise RuntimeError(f"{name}: nothing was said before the end")
    errors = Spread.of([one.error for one in asked])
    covered = sum(one.covered for one in asked) / len(asked)
    report.lingxi[name] = {
        "asked": len(asked),
        "relativeError": errors.as_json(3),
        "relativeError90": round(errors.percentile(90), 3),
        "withinTheRange": round(covered, 2),
    }
    report.say(
        f"{name}: median error {errors.median:.0%}, nine of ten below {errors.percentile(90):.0%}; "
        f"{covered:.0%} of {len(asked)} within the range that was said"
    )
    report.claim(
        f"{name}: the median error is at most {most:.0%}",
        round(errors.median, 3),
        not judged or errors.median <= most,
    )
    if name != "slower later":  # nobody can know that what comes is slower
        report.claim(
            f"{name}: the range holds for {LEAST_COVERED:.0%} or more",
            round(covered, 2),
            not judged or covered >= LEAST_COVERED,
        )
