"""`./run chaos`: kill Lingxi at every boundary, or throw random faults at it; see docs/chaos.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tests.chaos.ground import FOLDER, own_ground
from tests.chaos.kills import kill_at
from tests.chaos.plan import Plan, make_plan
from tests.chaos.points import every_point
from tests.chaos.storm import weather

PATIENCE_SECONDS = 180.0


def main(arguments: Sequence[str]) -> int:
    """0 when nothing was lost, doubled, miscounted or missed."""
    options = _options(arguments)
    if options.every_point:
        return asyncio.run(_kill_everywhere(options))
    plans = [make_plan(seed, options.seconds, tuple(options.fault)) for seed in options.seeds]
    if options.plan:
        _show(plans)
        return 0
    return asyncio.run(_weather_all(plans, options))


async def _kill_everywhere(options: argparse.Namespace) -> int:
    combinations = every_point(options.only)
    if not combinations:
        print(f"No failpoint begins with {options.only!r}.", file=sys.stderr)
        return 2
    failed, since = [], time.monotonic()
    logs = _logs("points")
    with own_ground() as ground:
        for role, point in combinations:
            folder = logs / f"{role}-{point}"
            killed = await kill_at(ground, folder, role, point, patience_seconds=options.patience)
            print(json.dumps(killed.as_json()) if options.json else killed.line(), flush=True)
            if killed.ok:
                shutil.rmtree(folder)
                continue
            failed.append(killed)
            if not options.json:
                _explain(killed.verdict.problems, folder, f"./run chaos --every-point --only {point}")
    points = len({point for _, point in combinations})
    summary = {
        "ok": not failed,
        "points": points,
        "kills": len(combinations),
        "failed": [f"{killed.role} {killed.point}" for killed in failed],
        "seconds": round(time.monotonic() - since, 1),
    }
    print(json.dumps(summary))
    return 1 if failed else 0


async def _weather_all(plans: Sequence[Plan], options: argparse.Namespace) -> int:
    failed, logs = [], _logs("seeds")
    with own_ground() as ground:
        for plan in plans:
            folder = logs / f"seed-{plan.seed}"
            weathered = await weather(ground, folder, plan, patience_seconds=options.patience)
            if not options.json:
                print(weathered.line(), flush=True)
            if weathered.ok:
                shutil.rmtree(folder)
            else:
                failed.append(plan.seed)
                again = f"./run chaos --seed {plan.seed} --seconds {plan.seconds:g}"
                again += "".join(f" --fault {name}" for name in options.fault)
                _explain(
                    weathered.verdict.problems, folder, again, sys.stderr if options.json else sys.stdout
                )
            print(json.dumps(weathered.as_json()), flush=True)
    if len(plans) > 1:
        print(json.dumps({"ok": not failed, "seeds": len(plans), "failed": failed}))
    return 1 if failed else 0


def _show(plans: Sequence[Plan]) -> None:
    for plan in plans:
        items = sum(len(step.items) for step in plan.steps if step.what == "submit")
        print(
            f"seed {plan.seed}, {plan.seconds:g} s (plan {plan.digest}): {len(plan.steps)} requests, {items} items"
        )
        for fault in plan.faults:
            print(f"  {fault.line()}")


def _explain(problems: Sequence[str], logs: Path, again: str, to: TextIO = sys.stdout) -> None:
    for problem in problems:
        print(f"    {problem}", file=to)
    print(f"    logs and ledger: {logs}\n    again: {again}", file=to, flush=True)


def _logs(name: str) -> Path:
    folder = FOLDER / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run chaos", description=__doc__)
    parser.add_argument(
        "--every-point", action="store_true", help="kill each role at each failpoint that it reaches"
    )
    parser.add_argument(
        "--only", metavar="NAME", help="with --every-point: this failpoint, or all that begin so"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="random faults and work by this seed")
    parser.add_argument("--seeds", metavar="A-B", help="one seed after another")
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="how long the work comes (60)"
    )
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME", help="only faults that begin so"
    )
    parser.add_argument("--plan", action="store_true", help="show what a seed does, and do not do it")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_SECONDS, metavar="S", help="longest wait for rest (180)"
    )
    parser.add_argument("--json", action="store_true", help="nothing but JSON on stdout, one object a line")
    options = parser.parse_args(arguments)
    try:
        options.seeds = _seeds(options)
    except ValueError:
        parser.error("--seeds wants two numbers, as in 1-20")
    if not options.every_point and not options.seeds:
        parser.error("say what to do: --every-point, --seed N or --seeds A-B")
    return options


def _seeds(options: argparse.Namespace) -> list[int]:
    if options.seeds is None:
        return [] if options.seed is None else [options.seed]
    first, _, last = options.seeds.partition("-")
    return list(range(int(first), int(last or first) + 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
