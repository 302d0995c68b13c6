"""How the harness talks to a peer: three commands, so that imports and start-up are never in the measured time.

`SCRIPT prepare` makes the peer's own schema and ends. `SCRIPT worker` prints `ready` and works until SIGTERM.
`SCRIPT submit N BATCH` prints `ready`, waits for a line on its input, submits N no-op jobs and prints one JSON line
with the monotonic time (one clock for all processes of a machine) at which the first job was handed over.

Peers run in an environment of their own and import nothing of Lingxi. The addresses of the servers come in the
environment, since a command line can be read by everybody on the machine.
"""

import json
import os
import sys
import time
from collections.abc import Callable

PAYLOAD = {"objectId": "0198f2c4-7d3a-7000-8000-000000000000", "durationMs": 0}


def database_url() -> str:
    """The PostgreSQL address, `postgresql://user:password@host:port/name`."""
    return os.environ["BENCH_DATABASE_URL"]


def redis_url() -> str:
    """The Valkey address, `redis://:password@host:port/0`."""
    return os.environ["BENCH_REDIS_URL"]


def setting(name: str, default: int) -> int:
    """A peer's own tuning, e.g. its concurrency, which the harness passes as `BENCH_<NAME>`."""
    return int(os.environ.get(f"BENCH_{name.upper()}", default))


def ready() -> None:
    """Tell the harness that everything that is not measured has been done."""
    print("ready", flush=True)


def wait_for_go() -> float:
    """Block until the harness says go; the monotonic time of the start, in seconds."""
    ready()
    sys.stdin.readline()
    return time.monotonic()


def report(started_at: float) -> None:
    """Tell the harness when the first and the last job were handed over; stay until it has read our CPU time."""
    print(json.dumps({"startedAt": started_at, "submittedAt": time.monotonic()}), flush=True)
    sys.stdin.readline()


def dispatch(
    prepare: Callable[[], None], worker: Callable[[], None], submit: Callable[[int, int], None]
) -> None:
    """Run the command that the harness named."""
    command = sys.argv[1]
    if command == "prepare":
        prepare()
    elif command == "worker":
        worker()
    else:
        submit(int(sys.argv[2]), int(sys.argv[3]))
