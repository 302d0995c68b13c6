"""`python -m benchmarks NAME [--json] [--quick] [--runs N]`; `./run bench NAME` is the same."""

import argparse
import sys
from collections.abc import Awaitable, Callable

import uvloop

from benchmarks import (
    archive,
    eta,
    growth,
    items,
    live,
    observability,
    photo_memory,
    photos,
    recovery,
    sse,
    submit,
    sweep,
    video,
)
from benchmarks.options import Options
from benchmarks.report import Report

BENCHES: dict[str, Callable[[Options], Awaitable[Report]]] = {
    "items": items.run,
    "submit": submit.run,
    "sse": sse.run,
    "growth": growth.run,
    "photos": photos.run,
    "photo-memory": photo_memory.run,
    "live": live.run,
    "video": video.run,
    "archive": archive.run,
    "eta": eta.run,
    "observability": observability.run,
    "sweep": sweep.run,
    "recovery": recovery.run,
}


def main() -> int:
    """Run one benchmark. Exit code 0 only when its result was checked and every required claim holds."""
    parser = argparse.ArgumentParser(prog="run bench", description="A benchmark beside its peers.")
    parser.add_argument("name", choices=sorted(BENCHES))
    parser.add_argument("--json", action="store_true", help="end with one JSON line on stdout")
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test that judges no speed")
    parser.add_argument("--runs", type=int, metavar="N", help="rounds instead of the default")
    given = parser.parse_args()
    try:
        report = uvloop.run(_run(given.name, Options(quick=given.quick, runs=given.runs)))
    except KeyboardInterrupt:
        return 130
    except RuntimeError as error:  # a result that is not right, or a process that did not come up
        print(f"bench {given.name}: {error}", file=sys.stderr)
        return 1
    print(report.as_json() if given.json else report.as_text())
    return 0 if report.ok else 1


async def _run(name: str, options: Options) -> Report:
    return await BENCHES[name](options)


if __name__ == "__main__":
    sys.exit(main())
