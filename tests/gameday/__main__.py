"""`./run gameday`: does the right alert fire, and does the runbook end it? See docs/runbook.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from tests.gameday.day import game_day
from tests.gameday.faults import FAULTS
from tests.support.servers import ROOT

FOLDER = ROOT / ".lingxi" / "gameday"
SCALE = 8.0


def main(arguments: Sequence[str]) -> int:
    """0 when each fault's alert fired and was over, and no other alert was told of."""
    options = _options(arguments)
    faults = [fault for fault in FAULTS if not options.fault or fault.name in options.fault]
    folder = FOLDER / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")

    def say(line: str) -> None:
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)

    outcomes = asyncio.run(game_day(folder, faults, scale=options.scale, say=say))
    ok = all(outcome.ok for outcome in outcomes)
    if ok:
        shutil.rmtree(folder)
    else:
        say(f"Logs: {folder}")
    print(json.dumps({"ok": ok, "faults": {outcome.name: outcome.as_json() for outcome in outcomes}}))
    return 0 if ok else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./run gameday", description="Real faults, real alerts, the runbook's own commands."
    )
    parser.add_argument(
        "--fault",
        action="append",
        choices=[fault.name for fault in FAULTS],
        help="only this one; may be repeated",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=SCALE,
        help=f"how many times shorter the rules' times are (default {SCALE:g})",
    )
    parser.add_argument("--json", action="store_true", help="only the result, as one line of JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
