"""`items`: no-op items end to end, beside Procrastinate, Celery and PgQueuer in interleaved rounds."""

from benchmarks.lingxi_run import Work, run_lingxi
from benchmarks.options import Options
from benchmarks.peer_env import peer_python
from benchmarks.peer_runs import Peer, peers, run_peer
from benchmarks.report import Report
from benchmarks.servers import running_servers
from benchmarks.stack import prepare_template
from benchmarks.stats import Run, Spread

REQUIRED_RATIOS = {"procrastinate": 8.0, "celery": 8.0}
AIMED_RATIOS = {"pgqueuer-10": 0.6, "pgqueuer-100": 0.35}
EXCLUDES = [
    "start-up and imports of all processes, schema and migrations (done before the clock starts)",
    "the processor's own work (no-ops on all sides), TLS and the network (loopback)",
    "a watcher: the event stream's numbers are kept for each change, nobody reads them in this run",
    "what peers do not keep: PgQueuer and Celery have no batch counters, numbers, leases or history",
]


async def run(options: Options) -> Report:
    report = Report("items", excludes=EXCLUDES)
    work = Work(2, 200) if options.quick else Work(20, 1_000)
    rounds = options.runs or (1 if options.quick else 3)
    python, field = peer_python(), peers(work.items)
    ours: list[Run] = []
    theirs: dict[str, list[Run]] = {peer.name: [] for peer in field}
    with running_servers() as servers:
        token = await prepare_template(servers)
        for number in range(1, rounds + 1):
            ours.append(await run_lingxi(servers, token, work))
            report.say(f"round {number}: lingxi {ours[-1].items_per_second:,.0f} items/s")
            for peer in field:
                theirs[peer.name].append(await run_peer(servers, python, peer))
                report.say(
                    f"round {number}: {peer.name} {theirs[peer.name][-1].items_per_second:,.0f} items/s"
                )
    _fill(report, work, field, ours, theirs, judged=not options.quick)
    return report


def _fill(
    report: Report,
    work: Work,
    field: list[Peer],
    ours: list[Run],
    theirs: dict[str, list[Run]],
    *,
    judged: bool,
) -> None:
    rate = Spread.of([run.items_per_second for run in ours])
    acknowledged = Spread.of([run.acknowledged_per_second or 0.0 for run in ours])
    report.lingxi = {
        "items": work.items,
        "itemsPerSecond": rate.as_json(0),
        "itemsPerSecondUntilAcknowledged": acknowledged.as_json(0),
        "submitSeconds": Spread.of([run.submit_seconds for run in ours]).as_json(3),
        "cpuMicrosecondsPerItem": _cpu(ours),
    }
    report.say(
        f"lingxi: {work.tasks} tasks of {work.items_per_task} over HTTP, 2 worker processes: {rate.text()} items/s"
    )
    report.say(
        f"  until Redis's lists are empty too: {acknowledged.text()} items/s; CPU µs an item {_cpu(ours)}"
    )
    report.claim(
        "every item succeeded once, counters and numbers right, Redis empty at the end", "checked", True
    )
    for peer in field:
        runs = theirs[peer.name]
        peer_rate = Spread.of([run.items_per_second for run in runs])
        report.peers[peer.name] = {
            "items": peer.items,
            "itemsPerSecond": peer_rate.as_json(0),
            "cpuMicrosecondsPerItem": _cpu(runs),
            "how": peer.note,
        }
        report.say(
            f"{peer.name}: {peer.items} jobs, {peer.note}: {peer_rate.text()} items/s; CPU µs {_cpu(runs)}"
        )
        ratio = report.ratios[peer.name] = rate.median / peer_rate.median
        if judged and peer.name in REQUIRED_RATIOS:
            wanted = REQUIRED_RATIOS[peer.name]
            report.claim(f"at least {wanted:g} × {peer.name}", round(ratio, 2), ratio >= wanted)
        elif judged:
            wanted = AIMED_RATIOS[peer.name]
            report.claim(
                f"at least {wanted:g} × {peer.name}", round(ratio, 2), ratio >= wanted, required=False
            )


def _cpu(runs: list[Run]) -> dict[str, float]:
    """Median CPU microseconds an item, by kind of process."""
    return {
        name: round(Spread.of([run.cpu_microseconds[name] for run in runs]).median, 1)
        for name in runs[0].cpu_microseconds
    }
