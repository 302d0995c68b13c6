"""`./run soak`: quiet running for so many minutes."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from tests.soak.run import soak
from tests.support.servers import ROOT


def main(arguments: Sequence[str]) -> int:
    """0 when nothing would have paged, and nothing grew."""
    parser = argparse.ArgumentParser(prog="./run soak", description="Quiet running: no alert, no growth.")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--json", action="store_true", help="only the result, as one line of JSON")
    options = parser.parse_args(arguments)
    folder = ROOT / ".lingxi" / "soak" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")

    def say(line: str) -> None:
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)

    found = asyncio.run(soak(folder, options.minutes, say))
    if found["ok"]:
        shutil.rmtree(folder)
    else:
        say(f"Logs: {folder}")
    print(json.dumps(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
