"""`live`: from the upload of a photo to its frame at a viewer with a share link, idle and while the same album is reprocessed."""

import asyncio
import contextlib
import hashlib
import json
import struct
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx

from benchmarks.options import Options
from benchmarks.photo_sets import phone_photos, small_photo
from benchmarks.report import Report
from benchmarks.servers import Servers, fresh_database, running_servers
from benchmarks.stack import TEMPLATE, Stack, prepare_template, running_stack
from benchmarks.stats import Spread
from lingxi.conformance.album import Album
from lingxi.conformance.connection import StreamConnection
from lingxi.conformance.rule import Bench
from lingxi.conformance.server import API, Server
from lingxi.conformance.sse import Frame

P95_AIM_SECONDS = 3.0
TIMES_IDLE = 3.0
FRAME_SECONDS = 120.0  # that a frame may take before the run is given up
STAGES = ("received", "stored", "enqueued", "started", "encoded", "variantsStored", "committed", "firstFrame")
EXCLUDES = [
    "TLS and the network (loopback), and the viewer's own loading of the picture",
    "nothing for the uploading and the watching side: they share the cores with the server, so the times are rather too long",
]
NO_PEER = "no peer: none of the systems compared elsewhere publishes photos to viewers"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is reprocessed, and how many photos are uploaded meanwhile: so many windows of so many."""

    reprocessed: int
    windows: int
    uploads: int
    every_seconds: float = 1.0


FULL = Size(5_000, 3, 40)
QUICK = Size(60, 1, 4, every_seconds=0.2)
WARM_UP = Size(0, 1, 2, every_seconds=0.1)  # nobody counts them: the first decoders are started


async def run(options: Options) -> Report:
    size = QUICK if options.quick else FULL
    windows = options.runs or size.windows
    report = Report("live", excludes=EXCLUDES)
    with running_servers() as servers:
        token = await prepare_template(servers)
        photos = phone_photos(servers.root, quick=options.quick)
        async with (
            fresh_database(servers, "bench_live", template=TEMPLATE) as database_url,
            running_stack(
                servers, database_url, token, processes=1, settings={"QUEUE": "demo,photo"}
            ) as stack,
            _Scene.open(stack, photos) as scene,
        ):
            await _fill(servers, database_url, scene.album.id, size.reprocessed)
            await scene.watch()
            await scene.window(WARM_UP)
            idle = [await scene.window(size) for _ in range(windows)]
            async with _Reprocess.going_on(scene.album, database_url, size.reprocessed) as reprocess:
                await scene.reprocessing()
                before = scene.reprocessed
                began = asyncio.get_running_loop().time()
                busy = [await scene.window(size) for _ in range(windows)]
                seconds = asyncio.get_running_loop().time() - began
                meanwhile = scene.reprocessed - before
            stages = await _stages(database_url, scene)
    _tell(report, "idle", idle)
    _tell(report, "reprocess", busy)
    report.lingxi["reprocess"] |= {
        "photos": size.reprocessed,
        "reprocessedMeanwhile": meanwhile,
        "reprocessedPerSecond": round(meanwhile / seconds, 1),
        "timesAsked": reprocess.times_asked,
        "leastLeft": reprocess.least_left,
    }
    report.lingxi["stagesMilliseconds"] = stages
    report.say(
        f"reprocessed meanwhile: {meanwhile}, {meanwhile / seconds:.1f} photos/s; asked {reprocess.times_asked} times for all of "
        f"{size.reprocessed} photos and those uploaded since; at least {reprocess.least_left} were left at any time"
    )
    report.say(f"milliseconds since `received`, medians: {stages}")
    _judge(report, judged=not options.quick, least_left=reprocess.least_left)
    report.say(NO_PEER)
    return report


class _Scene:
    """An album with one viewer, who came by a share link, and uploads whose frames are waited for."""

    def __init__(self, album: Album, photos: Sequence[bytes]) -> None:
        self.album = album
        self.reprocessed = 0
        self.uploaded: list[str] = []
        self._photos = photos
        self._count = 0
        self._shown: dict[str, asyncio.Future[float]] = {}
        self._reprocessing = asyncio.Event()
        self._viewer: asyncio.Task[None] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, stack: Stack, photos: Sequence[bytes]) -> AsyncIterator["_Scene"]:
        async with httpx.AsyncClient(trust_env=False) as http:
            server = Server(f"http://127.0.0.1:{stack.port}", stack.token, http)
            album = await Album.create(Bench(server))
            scene = cls(album, photos)
            try:
                yield scene
            finally:
                if scene._viewer is not None:
                    scene._viewer.cancel()
                    await asyncio.gather(scene._viewer, return_exceptions=True)

    async def watch(self) -> None:
        """Open the feed by a share link; returns when it has told the album."""
        stream = await self.album.events(guest=await self.album.share())
        if (first := await stream.next(FRAME_SECONDS)) is None or first.event != "snapshot":
            raise RuntimeError(f"the feed begins with {first}")
        self._viewer = asyncio.create_task(self._follow(stream))

    async def window(self, size: Size) -> list[float]:
        """Upload at an even pace, whatever comes back when; the milliseconds from each upload to its frame."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        uploads = []
        for count in range(size.uploads):
            await asyncio.sleep(max(0.0, began + count * size.every_seconds - loop.time()))
            uploads.append(asyncio.create_task(self._upload()))
        return list(await asyncio.gather(*uploads))

    async def reprocessing(self) -> None:
        """Wait until the viewer is told of the first photo that was made anew."""
        async with asyncio.timeout(FRAME_SECONDS):
            await self._reprocessing.wait()

    async def _upload(self) -> float:
        self._count += 1
        content = _unique(self._photos[self._count % len(self._photos)], self._count)
        server = self.album.server
        began = asyncio.get_running_loop().time()
        answer = await server.http.post(
            f"{server.url}{API}/albums/{self.album.id}/photos",
            files=[("file", (f"IMG_{self._count}.jpg", content, "image/jpeg"))],
            headers=server.authorization,
            timeout=FRAME_SECONDS,
        )
        (outcome,) = answer.json()["files"]
        if outcome["status"] != "created":
            raise RuntimeError(f"an upload was answered {outcome}")
        self.uploaded.append(outcome["photo"]["id"])
        photo_id = outcome["photo"]["id"]
        try:
            async with asyncio.timeout(FRAME_SECONDS):
                return (await self._frame_of(photo_id) - began) * 1e3
        except TimeoutError:
            photo = await self.album.call("GET", f"/photos/{photo_id}")
            raise RuntimeError(
                f"no frame of a photo came within {FRAME_SECONDS:g} s; it is {photo}"
            ) from None

    def _frame_of(self, photo_id: str) -> "asyncio.Future[float]":
        return self._shown.setdefault(photo_id, asyncio.get_running_loop().create_future())

    async def _follow(self, stream: StreamConnection) -> None:
        """What comes is noted; when nothing comes any more, whoever waits is told."""
        async with stream:
            try:
                while (frame := await stream.next(FRAME_SECONDS * 5)) is not None:
                    if frame.event == "photo":
                        self._note(frame)
            finally:
                for waiting in self._shown.values():
                    if not waiting.done():
                        waiting.set_exception(RuntimeError("the viewer's stream has ended"))

    def _note(self, frame: Frame) -> None:
        if frame.data["generation"] > 1:
            self.reprocessed += 1
            self._reprocessing.set()
        elif not (shown := self._frame_of(frame.data["id"])).done():
            shown.set_result(frame.at)


class _Reprocess:
    """Of the whole album, asked for again whenever less than a fifth of it is left, so that it goes on as long as the uploads."""

    def __init__(self, album: Album, connection: asyncpg.Connection, photos: int) -> None:
        self._album = album
        self._connection = connection
        self._photos = photos
        self.times_asked = 0
        self.least_left = photos

    @classmethod
    @contextlib.asynccontextmanager
    async def going_on(cls, album: Album, database_url: str, photos: int) -> AsyncIterator["_Reprocess"]:
        connection = await asyncpg.connect(database_url)
        reprocess = cls(album, connection, photos)
        await reprocess._ask()
        watching = asyncio.create_task(reprocess._watch())
        try:
            yield reprocess
        finally:
            watching.cancel()
            (ended,) = await asyncio.gather(watching, return_exceptions=True)
            await connection.close()
        if not isinstance(ended, asyncio.CancelledError):
            raise RuntimeError("nobody saw to it that the reprocess goes on") from ended

    async def _ask(self) -> None:
        await self._album.call("POST", "/reprocess")
        self.times_asked += 1

    async def _watch(self) -> None:
        query = (
            "select count(*) from photos where album_id = $1 and published_generation < requested_generation"
        )
        while True:
            left = await self._connection.fetchval(query, uuid.UUID(self._album.id))
            self.least_left = min(self.least_left, left)
            if left < self._photos // 5:
                await self._ask()
            await asyncio.sleep(0.5)


# ── the album that is reprocessed ────────────────────────────────────────────────────────────────────────


_PHOTO_COLUMNS = [
    "id", "workspace_id", "album_id", "upload_number", "file_name", "storage_key", "size_bytes", "sha256", "content_type",
    "processing_state", "visibility", "requested_generation", "published_generation", "width", "height", "published_at",
    "last_seq",
]  # fmt: skip


async def _fill(servers: Servers, database_url: str, album_id: str, count: int) -> None:
    """Published photos with their originals in storage, as if they had been uploaded before; their pictures are only named."""
    connection = await asyncpg.connect(database_url)
    album, small = uuid.UUID(album_id), small_photo()
    workspace = await connection.fetchval("select workspace_id from albums where id = $1", album)
    photos, variants, now = [], [], datetime.now(UTC)
    for number in range(1, count + 1):
        await asyncio.sleep(0)
        content, key, photo_id = _unique(small, 1_000_000 + number), uuid.uuid4().hex, uuid.uuid4()
        _write(servers.root / "lingxi" / "objects" / "objects" / key[:2] / key, content)
        told = (f"BULK_{number}.jpg", key, len(content), hashlib.sha256(content).digest(), "image/jpeg")
        state = ("ready", "published", 1, 1, 1200, 800, now, 1 + number)
        photos.append((photo_id, workspace, album, number, *told, *state))
        variants += [
            (photo_id, kind, 1, f"bench/{photo_id}/{kind}", f"1-{kind}.jpg", 400, 267, 1, b"", "image/jpeg")
            for kind in ("thumb", "browse")
        ]
    await connection.copy_records_to_table("photos", records=photos, columns=_PHOTO_COLUMNS)
    await connection.copy_records_to_table("photo_variants", records=variants)
    change = "update albums set last_seq = 1 + $2, last_upload = $2 where id = $1"
    await connection.execute(change, album, count)
    await connection.execute("vacuum analyze")
    await connection.close()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _unique(jpeg: bytes, number: int) -> bytes:
    """The same picture, and other bytes: a comment behind the first marker."""
    comment = b"%012d" % number
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", 2 + len(comment)) + comment + jpeg[2:]


# ── what came of it ──────────────────────────────────────────────────────────────────────────────────────


async def _stages(database_url: str, scene: _Scene) -> dict[str, float]:
    """Of the uploads under the reprocess: the median of each stage's end, since the upload began."""
    await asyncio.sleep(3)  # the last first frames are written in batches
    connection = await asyncpg.connect(database_url)
    ids = [uuid.UUID(one) for one in scene.uploaded[len(scene.uploaded) // 2 :]]
    rows = await connection.fetch("select timeline from photos where id = any($1)", ids)
    await connection.close()
    timelines = [json.loads(row["timeline"]) for row in rows]
    found = {}
    for stage in STAGES[1:]:
        passed = [_at(one[stage]) - _at(one["received"]) for one in timelines if stage in one]
        if passed:
            found[stage] = round(Spread.of(passed).median * 1e3, 1)
    return found


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _tell(report: Report, name: str, windows: list[list[float]]) -> None:
    p50, p95 = (Spread.of([Spread.of(one).percentile(p) for one in windows]) for p in (50, 95))
    report.say(f"{name}: upload to frame p50 {p50.text()} ms, p95 {p95.text()} ms")
    report.lingxi[name] = {
        "uploads": sum(len(one) for one in windows),
        "p50Milliseconds": p50.as_json(),
        "p95Milliseconds": p95.as_json(),
    }


def _judge(report: Report, *, judged: bool, least_left: int) -> None:
    """Each upload's frame came, or the run would have ended; speed is judged at full size only."""
    report.claim("every uploaded photo reached the viewer", "checked", True)
    if not judged:
        return
    idle, busy = (report.lingxi[name]["p95Milliseconds"]["median"] for name in ("idle", "reprocess"))
    report.claim("photos were left to reprocess during all uploads", least_left, least_left > 0)
    for name, value in (("idle", idle), ("under a reprocess", busy)):
        report.claim(f"{name}: p95 under {P95_AIM_SECONDS:g} s", value, value < P95_AIM_SECONDS * 1e3)
    times = round(busy / idle, 2)
    report.lingxi["timesIdle"] = times
    report.claim(f"p95 under a reprocess at most {TIMES_IDLE:g} × idle", times, times <= TIMES_IDLE)
