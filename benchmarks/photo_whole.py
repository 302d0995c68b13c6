"""The second half of `photos`: from a photo that is sent to its pictures for viewers, with database and storage.

Lingxi as it is run: HTTP uploads, the API with its dispatcher, a worker with a process a core. The other side is sharp's
pictures and the same writes, and nothing else: the same storage (each file synchronised to disk), the same rows by the same
statements, called directly; no HTTP, queue, other process or retry.
"""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pyvips

from benchmarks.http import HttpConnection
from benchmarks.machine import cpu_seconds, descendants, is_decoder, own_cpu_seconds
from benchmarks.node_env import sharp_folder
from benchmarks.photo_sets import PhotoSet
from benchmarks.processes import Child, child
from benchmarks.report import Report
from benchmarks.servers import Servers, fresh_database, running_servers
from benchmarks.stack import TEMPLATE, Stack, prepare_template, running_stack
from benchmarks.stats import Spread
from lingxi.db.session import create_pool, transaction
from lingxi.domain.photos import Variant
from lingxi.imaging.pipeline import BROWSE_PIXELS, TOLERANCE
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.albums import create_album
from lingxi.services.publish_photo import Made, publish_photo
from lingxi.storage import open_storage

LANES = 2
UPLOADS_AT_ONCE = 4
REQUIRED_RATIO = 1.4
PUBLISHED_SECONDS = 600.0
POLL_SECONDS = 0.02
EXCLUDES = [
    "whole: the uploading client shares the two cores with Lingxi; sharp's side reads the photos from the disk",
]


Cpu = dict[str, float]  # milliseconds of user and system time a photo, by what the processes are


@dataclass(slots=True)
class Side:
    """One side's rounds: photos a second, and the processor's time."""

    rates: list[float] = field(default_factory=list)
    cpu: list[Cpu] = field(default_factory=list)

    @property
    def cpu_milliseconds(self) -> float:
        """A photo's, of all processes; other work on the machine moves it less than the rates."""
        return Spread.of([sum(cpu.values()) for cpu in self.cpu]).median

    def figures(self) -> dict[str, Any]:
        groups = {name: Spread.of([cpu[name] for cpu in self.cpu]).median for name in self.cpu[0]}
        total = Spread.of([sum(cpu.values()) for cpu in self.cpu])
        return {
            "photosPerSecond": Spread.of(self.rates).as_json(1),
            "cpuMillisecondsPerPhoto": {"total": total.as_json(0)}
            | {name: round(value, 1) for name, value in groups.items()},
        }

    def text(self) -> str:
        cpu = self.figures()["cpuMillisecondsPerPhoto"]
        parts = ", ".join(f"{name} {value:.0f}" for name, value in cpu.items() if name != "total")
        return (
            f"{Spread.of(self.rates).text(1)} ({cpu['total']['median']:.0f} ms of processor a photo: {parts})"
        )


@dataclass(slots=True)
class Whole:
    """The two sides on one set."""

    lingxi: Side = field(default_factory=Side)
    sharp: Side = field(default_factory=Side)


async def measure(
    report: Report,
    sets: Sequence[PhotoSet],
    *,
    photos: int,
    rounds: int,
    judged: Collection[str] | None,
    folder: Path,
) -> None:
    """`rounds` rounds of `photos` photos of each set on both sides, after one that nobody counts.

    `judged`: the sets whose claim is required, on the others it is an aim; None: speed is not judged.
    """
    with running_servers() as servers:
        token = await prepare_template(servers)
        async with (
            fresh_database(servers, "bench_whole", template=TEMPLATE) as database_url,
            running_stack(
                servers, database_url, token, processes=LANES, settings={"QUEUE": "demo,photo"}
            ) as stack,
            _Lingxi.open(servers, stack, database_url) as ours,
            _Sharp.open(servers, database_url, folder) as theirs,
        ):
            for kind in sets:
                found = Whole()
                for number in range(rounds + 1):
                    batch = _distinct(kind, photos if kind.peers_read_it else photos // 4, folder, number)
                    for side in (ours, theirs) if number % 2 else (theirs, ours):
                        if side is theirs and not kind.peers_read_it:
                            continue
                        before = side.cpu_seconds()
                        rate = len(batch) / await side.publish(batch)
                        after = side.cpu_seconds()
                        if number:
                            into = found.lingxi if side is ours else found.sharp
                            into.rates.append(rate)
                            into.cpu.append(
                                {name: (after[name] - before[name]) * 1000 / len(batch) for name in after}
                            )
                    for path in batch:
                        path.unlink()
                _tell(report, kind, found, judged=judged)


def _distinct(kind: PhotoSet, count: int, folder: Path, number: int) -> list[Path]:
    """Photos that differ in some bytes behind their end: the same bytes again would be the same photo."""
    made = []
    for at in range(count):
        source = kind.paths[at % len(kind.paths)]
        ballast = b"%08d%08d" % (number, at)
        free_box = (8 + len(ballast)).to_bytes(4) + b"free" + ballast
        path = folder / f"whole-{number}-{at}{source.suffix}"
        path.write_bytes(source.read_bytes() + (free_box if source.suffix == ".heic" else ballast))
        made.append(path)
    return made


def _tell(report: Report, kind: PhotoSet, found: Whole, *, judged: Collection[str] | None) -> None:
    name = f"whole {kind.name}"
    report.lingxi[name] = found.lingxi.figures()
    line = f"whole, {kind.name}, photos/s: lingxi {found.lingxi.text()}"
    if found.sharp.rates:
        ratios = Spread.of(
            [ours / theirs for ours, theirs in zip(found.lingxi.rates, found.sharp.rates, strict=True)]
        )
        line += f"; sharp and the same writes {found.sharp.text()}"
        report.ratios[f"sharp {name}"] = ratios.median
        report.peers.setdefault("sharp", {})[name] = {
            **found.sharp.figures(),
            "lingxiIsTimesAsFast": ratios.as_json(2),
            "lingxiIsTimesAsFrugal": round(found.sharp.cpu_milliseconds / found.lingxi.cpu_milliseconds, 2),
        }
        if judged is not None:
            report.claim(
                f"{name}: at least {REQUIRED_RATIO:g} × sharp with the same writes",
                round(ratios.median, 2),
                ratios.median >= REQUIRED_RATIO,
                required=kind.name in judged,
            )
    report.say(line)


class _Lingxi:
    """A client of the running stack, and a look into its database for the end."""

    def __init__(
        self,
        servers: Servers,
        stack: Stack,
        database: asyncpg.Connection,
    ) -> None:
        self._servers = servers
        self._stack = stack
        self._database = database

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, servers: Servers, stack: Stack, database_url: str) -> AsyncIterator["_Lingxi"]:
        database = await asyncpg.connect(database_url)
        yield cls(servers, stack, database)
        await database.close()

    def cpu_seconds(self) -> Cpu:
        assert self._stack.worker is not None
        below = descendants(self._stack.worker.pid)
        decoders = [pid for pid in below if is_decoder(pid)]
        imaging = own_cpu_seconds(decoders)
        return {
            "decoders": imaging,
            "worker": cpu_seconds([self._stack.worker.pid]) - imaging,
            "api": cpu_seconds([self._stack.api.pid]),
            "client": time.process_time(),
            "postgres": cpu_seconds([self._servers.postgres_pid]),
            "valkey": cpu_seconds([self._servers.valkey_pid]),
        }

    async def publish(self, photos: Sequence[Path]) -> float:
        """Seconds from the first byte that is sent to the last photo that is published."""
        connections = [await self._stack.connect() for _ in range(UPLOADS_AT_ONCE)]
        answer = await connections[0].post("/api/v1/albums", b'{"name": "bench"}')
        if answer.status != 201:
            raise RuntimeError(f"an album was answered {answer.status}: {answer.body[:500]!r}")
        album = answer.json()["id"]
        waiting = list(photos)

        async def send(http: HttpConnection) -> None:
            while waiting:
                path = waiting.pop(0)
                content = await asyncio.to_thread(path.read_bytes)
                answer = await http.post_file(f"/api/v1/albums/{album}/photos", path.name, content)
                if answer.status != 201:
                    raise RuntimeError(f"an upload was answered {answer.status}: {answer.body[:500]!r}")

        started = time.monotonic()
        async with asyncio.timeout(PUBLISHED_SECONDS):
            await asyncio.gather(*(send(http) for http in connections))
        while (state := await self._state(album)) != {"ready": len(photos)}:
            if "processing_failed" in state or time.monotonic() - started > PUBLISHED_SECONDS:
                raise RuntimeError(f"the photos are {state}")
            await asyncio.sleep(POLL_SECONDS)
        seconds = time.monotonic() - started
        for connection in connections:
            connection.close()
        return seconds

    async def _state(self, album: str) -> dict[str, int]:
        rows = await self._database.fetch(
            "select processing_state, count(*) from photos where album_id = $1 group by 1", UUID(album)
        )
        return {row["processing_state"]: row["count"] for row in rows}


class _Sharp:
    """Node processes, one a lane, and the writes beside them."""

    def __init__(
        self, servers: Servers, nodes: list[Child], pool: asyncpg.Pool, storage: Any, workspace_id: UUID
    ) -> None:
        self._servers = servers
        self._nodes = nodes
        self._pool = pool
        self._storage = storage
        self._workspace_id = workspace_id

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, servers: Servers, database_url: str, folder: Path) -> AsyncIterator["_Sharp"]:
        script = str(sharp_folder() / "peer.mjs")
        async with AsyncExitStack() as stack:
            nodes = [
                await stack.enter_async_context(
                    child(["node", script, "two", "1"], env={}, log=folder / f"sharp-{lane}.log")
                )
                for lane in range(LANES)
            ]
            for node in nodes:
                await node.wait_ready()
            pool = await create_pool(database_url, name="bench-sharp", min_size=LANES, max_size=LANES * 2)
            stack.push_async_callback(pool.close)
            storage = open_storage((folder / "sharp-objects").as_uri())
            workspace_id = await pool.fetchval("select id from workspaces limit 1")
            yield cls(servers, nodes, pool, storage, workspace_id)
            await storage.close()

    def cpu_seconds(self) -> Cpu:
        return {
            "node": cpu_seconds([node.pid for node in self._nodes]),
            "writes": time.process_time(),
            "postgres": cpu_seconds([self._servers.postgres_pid]),
        }

    async def publish(self, photos: Sequence[Path]) -> float:
        async with transaction(self._pool) as connection:
            album = await create_album(connection, self._workspace_id, "bench")
        waiting = list(photos)
        started = time.monotonic()

        async def lane(node: Child) -> None:
            while waiting:
                await self._publish(album.id, waiting.pop(0), node)

        await asyncio.gather(*(lane(node) for node in self._nodes))
        return time.monotonic() - started

    async def _publish(self, album_id: UUID, path: Path, node: Child) -> None:
        received_at = datetime.now(UTC)
        stored = await self._storage.put(_chunks(path), max_bytes=1 << 30)
        new = NewPhoto(path.name, stored.key, stored.size_bytes, stored.sha256, "image/jpeg", received_at)
        async with transaction(self._pool) as connection:
            photo = (await add_photo(connection, self._workspace_id, album_id, new)).photo
        with tempfile.TemporaryDirectory(dir=path.parent) as out:
            node.say(json.dumps({"photos": [str(path)], "out": out, "boxes": [_box(path)]}))
            await node.line(PUBLISHED_SECONDS)
            variants = [
                await self._store(photo.id, album_id, Path(out) / path.stem / f"{kind}.jpg", kind)
                for kind in ("browse", "thumb")
            ]
        header = pyvips.Image.new_from_file(str(path))
        made = Made(1, header.width, header.height, None, variants, {"started": received_at})
        async with transaction(self._pool) as connection:
            await publish_photo(connection, photo.id, made, first=True)

    async def _store(self, photo_id: UUID, album_id: UUID, path: Path, kind: str) -> Variant:
        key = f"photo-live/bench/albums/{album_id}/variants/{photo_id}/1/{kind}.jpg"
        stored = await self._storage.put(_chunks(path), max_bytes=1 << 30, key=key)
        header = pyvips.Image.jpegload(str(path))
        return Variant(
            kind, 1, stored.key, f"1-{kind}-{stored.sha256.hex()[:16]}.jpg", header.width, header.height,
            stored.size_bytes, stored.sha256, "image/jpeg",
        )  # fmt: skip


def _box(path: Path) -> int:
    """The long edge that Lingxi's browse variant has, so that sharp makes the same: a half where that is near enough."""
    header = pyvips.Image.new_from_file(str(path))
    long_edge: int = max(header.width, header.height)
    half = -(-long_edge // 2)
    near = path.suffix == ".jpg" and BROWSE_PIXELS * TOLERANCE <= half <= BROWSE_PIXELS
    return half if near else min(long_edge, BROWSE_PIXELS)


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, 1 << 20):
            yield chunk
