"""`observability`: what metrics, canaries and logs cost an item: the run of `items` with them and without them, in turns."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from statistics import fmean, stdev

from benchmarks.http import HttpConnection
from benchmarks.lingxi_run import Work, run_lingxi
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.servers import running_servers
from benchmarks.stack import ROOT, Stack, prepare_template
from benchmarks.stats import Run, Spread

MOST_MORE = 0.03
SCRAPE_SECONDS = 5.0  # three times as often as the example's Prometheus
WITH = {"LOG_LEVEL": "info", "CANARY_INTERVAL_SECONDS": "10"}
WITHOUT = {
    "CANARY_INTERVAL_SECONDS": "0",
    "PYTHONPATH": f"{ROOT / 'benchmarks/without_metrics'}:{ROOT / 'src'}",
}


async def run(options: Options) -> Report:
    report = Report("observability", excludes=["traces, an extra that is off unless an endpoint is named"])
    work = Work(2, 200) if options.quick else Work(20, 1_000)
    rounds = options.runs or (1 if options.quick else 12)
    seen: list[Run] = []
    unseen: list[Run] = []
    with running_servers() as servers:
        token = await prepare_template(servers)
        for number in range(1, rounds + 1):
            order = [True, False] if number % 2 else [False, True]
            for watched in order:
                settings = WITH if watched else WITHOUT
                beside = _scraped if watched else _alone
                (seen if watched else unseen).append(
                    await run_lingxi(servers, token, work, settings=settings, beside=beside)
                )
            report.say(
                f"round {number}: {seen[-1].items_per_second:,.0f} and {unseen[-1].items_per_second:,.0f} items/s"
            )
    _judge(report, seen, unseen, judged=not options.quick)
    return report


@contextlib.asynccontextmanager
async def _alone(stack: Stack) -> AsyncIterator[None]:
    yield


@contextlib.asynccontextmanager
async def _scraped(stack: Stack) -> AsyncIterator[None]:
    async def scrape() -> None:
        http = await HttpConnection.open(stack.port)
        while True:
            await http.get("/api/v1/metrics")
            await asyncio.sleep(SCRAPE_SECONDS)

    task = asyncio.create_task(scrape())
    try:
        yield
    finally:
        task.cancel()


def _judge(report: Report, seen: list[Run], unseen: list[Run], *, judged: bool) -> None:
    """By CPU time of all processes an item, which other work on the machine disturbs less than the clock.

    Of all rounds together: one round's difference is mostly what Valkey needs more or less by itself.
    """
    cpu = [[sum(run.cpu_microseconds.values()) for run in runs] for runs in (seen, unseen)]
    speed = [Spread.of([run.items_per_second for run in runs]) for runs in (seen, unseen)]
    rounds = Spread.of([one / other - 1 for one, other in zip(*cpu, strict=True)])
    more = fmean(cpu[0]) / fmean(cpu[1]) - 1
    error = (
        stdev([one - other for one, other in zip(*cpu, strict=True)]) / len(seen) ** 0.5
        if len(seen) > 1
        else 0.0
    )
    report.lingxi = {
        name: {
            "itemsPerSecond": rate.as_json(0),
            "cpuMicrosecondsPerItem": Spread.of(times).as_json(1),
            "meanCpuMicrosecondsPerItem": {
                group: round(fmean(run.cpu_microseconds[group] for run in runs), 1)
                for group in runs[0].cpu_microseconds
            },
        }
        for name, rate, times, runs in zip(("with", "without"), speed, cpu, (seen, unseen), strict=True)
    }
    report.lingxi["moreCpu"] = {
        "ofAll": round(more, 3),
        "standardError": round(error / fmean(cpu[1]), 3),
        "ofARound": rounds.as_json(3),
    }
    report.say(
        f"with: {speed[0].text()} items/s; without: {speed[1].text()}; CPU time an item {more:+.1%} "
        f"± {error / fmean(cpu[1]):.1%} (standard error)"
    )
    for group in seen[0].cpu_microseconds:
        with_, without = (
            report.lingxi[name]["meanCpuMicrosecondsPerItem"][group] for name in ("with", "without")
        )
        report.say(f"  {group}: {with_:.1f} and {without:.1f} µs an item")
    report.claim(
        f"metrics, canaries and logs cost at most {MOST_MORE:.0%} more CPU time an item",
        round(more, 3),
        not judged or more <= MOST_MORE,
    )
