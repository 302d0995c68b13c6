"""`photo-memory`: what a worker and its decoders hold over hundreds of photos. It has to stay flat and below a limit."""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx

from benchmarks.machine import descendants
from benchmarks.options import Options
from benchmarks.photo_sets import PhotoSet, make_sets
from benchmarks.report import Report
from benchmarks.servers import fresh_database, running_servers
from benchmarks.stack import TEMPLATE, Stack, prepare_template, running_stack
from benchmarks.stats import Spread

SETS = ("camera", "phone", "p3", "png")
UPLOADS_AT_ONCE = 4
LIMIT_BYTES = 250 << 20
GROWTH = 1.10  # of the last fifth to the second one; the first fifth warms up
LOOK_SECONDS = 0.25
PUBLISHED_SECONDS = 3_000.0
EXCLUDES = ["speed: the photos come as fast as they are published, and nobody judges how fast that is"]


@dataclass(frozen=True, slots=True)
class Look:
    """Resident bytes of each process at a moment, when so many photos were published."""

    published: int
    resident_bytes: dict[str, int]


async def run(options: Options) -> Report:
    """500 photos of all kinds through one worker of two processes."""
    report = Report("photo-memory", excludes=EXCLUDES)
    count = 40 if options.quick else 500
    with running_servers() as servers, tempfile.TemporaryDirectory(prefix="lingxi-bench-") as folder:
        token = await prepare_template(servers)
        sets = [one for one in make_sets(Path(folder), quick=options.quick) if one.name in SETS]
        async with (
            fresh_database(servers, "bench_memory", template=TEMPLATE) as database_url,
            running_stack(
                servers, database_url, token, processes=2, settings={"QUEUE": "demo,photo"}
            ) as stack,
        ):
            looks = await _publish(report, stack, database_url, sets, count)
    _judge(report, looks, count, judged=not options.quick)
    return report


async def _publish(
    report: Report, stack: Stack, database_url: str, sets: list[PhotoSet], count: int
) -> list[Look]:
    headers = {"Authorization": f"Bearer {stack.token}"}
    base = f"http://127.0.0.1:{stack.port}/api/v1/"
    photos = [
        path.read_bytes() for number in range(6) for one in sets for path in one.paths[number : number + 1]
    ]
    database = await asyncpg.connect(database_url)
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=PUBLISHED_SECONDS) as http:
        album = (await http.post("albums", json={"name": "bench"})).json()["id"]
        at_once = asyncio.Semaphore(UPLOADS_AT_ONCE)

        async def send(number: int) -> None:
            async with at_once:
                data = (
                    photos[number % len(photos)] + b"%08d" % number
                )  # the same bytes would be the same photo
                answer = await http.post(f"albums/{album}/photos", files={"file": (f"{number}.jpg", data)})
                answer.raise_for_status()

        sending = asyncio.gather(*(send(number) for number in range(count)))
        looks: list[Look] = []
        deadline, told = time.monotonic() + PUBLISHED_SECONDS, 0
        while not looks or looks[-1].published < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {looks[-1].published} photos were published")
            ready = await database.fetchval(
                "select count(*) from photos where album_id = $1 and processing_state = 'ready'", UUID(album)
            )
            assert stack.worker is not None
            looks.append(Look(ready, _resident(stack.worker.pid)))
            if ready >= told + 100:
                told = ready
                report.say(
                    f"{ready} photos: {max(looks[-1].resident_bytes.values()) >> 20} MB in the largest process"
                )
            await asyncio.sleep(LOOK_SECONDS)
        await sending
    await database.close()
    return looks


def _resident(worker: int) -> dict[str, int]:
    """Of the supervisor, the worker processes and their decoders, by what each is and its id."""
    found = {}
    for pid in descendants(worker):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue  # it has just ended
        for line in status.splitlines():
            if line.startswith("VmRSS"):
                kind = "decoder" if b"lingxi.imaging.child" in command else "worker"
                found[f"{kind} {pid}"] = int(line.split()[1]) * 1024
    return found


def _judge(report: Report, looks: list[Look], count: int, *, judged: bool) -> None:
    fifths: list[list[int]] = [[] for _ in range(5)]
    for look in looks:
        fifths[min(4, look.published * 5 // count)].append(max(look.resident_bytes.values()))
    for kind in ("worker", "decoder"):
        sizes = [
            size / (1 << 20)
            for look in looks
            for name, size in look.resident_bytes.items()
            if name.startswith(kind)
        ]
        if sizes:
            report.lingxi[f"{kind}Megabytes"] = Spread.of(sizes).as_json(0)
    report.lingxi["photos"] = count
    medians = [Spread.of(part).median for part in fifths if part]
    report.lingxi["largestProcessMegabytesByFifth"] = [round(size / (1 << 20)) for size in medians]
    largest = max(size for look in looks for size in look.resident_bytes.values())
    report.claim(
        f"no process ever holds more than {LIMIT_BYTES >> 20} MB", f"{largest >> 20} MB", largest < LIMIT_BYTES,
        required=judged,
    )  # fmt: skip
    if judged:
        growth = medians[-1] / medians[1]
        report.claim(
            f"the last fifth holds at most {GROWTH:g} × the second one", round(growth, 2), growth <= GROWTH
        )
