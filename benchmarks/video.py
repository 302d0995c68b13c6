"""`video`: one clip as MP4 for the web, beside Debian's ffmpeg with the same settings, in interleaved rounds."""

import asyncio
import contextlib
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import av.filter
import numpy as np

from benchmarks.machine import descendants
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.stats import Spread
from lingxi.video.children import VideoChildren, VideoConfig

THREADS = 2  # of the decoder and of the encoder, on both sides
PRESET, QUALITY, SOUND_BITS = "veryfast", 23, "128k"  # as lingxi.video has them
CLIP_SECONDS = 10.0
REQUIRED_RATIO = 0.9
BYTES_RANGE = (0.8, 1.25)
MAX_PSNR_DIFFERENCE = 0.5  # in dB
EXCLUDES = [
    "storage, database and network: this is decoding and encoding alone",
    "the making of the clip (done before the clock starts)",
]
NOTES = "both sides start a process for each clip, and that is in the figures; ours also starts Python"


@dataclass(frozen=True, slots=True)
class Clip:
    """A source, and the short edge that it is brought to."""

    name: str
    path: Path
    seconds: float
    short_edge: int


@dataclass(slots=True)
class Side:
    """One contender, and what it took in each round."""

    name: str
    work: Callable[[Clip, Path], Awaitable[None]]
    speeds: list[float] = field(default_factory=list)  # seconds of video a second
    cpu_seconds: list[float] = field(default_factory=list)
    peak_megabytes: list[float] = field(default_factory=list)
    out: Path | None = None  # of the last round


async def run(options: Options) -> Report:
    report = Report("video", excludes=EXCLUDES)
    if (ffmpeg := shutil.which("ffmpeg")) is None:
        raise RuntimeError("ffmpeg is needed as the peer: apt-get install ffmpeg")
    rounds = options.runs or (1 if options.quick else 5)
    with tempfile.TemporaryDirectory(prefix="lingxi-bench-") as scratch:
        folder = Path(scratch)
        report.say("making the clip …")
        seconds = 1.0 if options.quick else CLIP_SECONDS
        size = (640, 360) if options.quick else (1920, 1080)
        path = await asyncio.to_thread(_make_clip, folder / "source.mp4", size, seconds)
        for short_edge in (360,) if options.quick else (1080, 720):
            name = f"{size[1]}p30 to {short_edge}p"
            sides = [Side("lingxi", _lingxi), Side("ffmpeg", _ffmpeg(ffmpeg))]
            clip = Clip(name, path, seconds, short_edge)
            await _measure(clip, sides, rounds, folder)
            await asyncio.to_thread(_fill, report, clip, sides, not options.quick)
    report.say(NOTES)
    return report


# ── the two sides ────────────────────────────────────────────────────────────────────────────────────────


async def _lingxi(clip: Clip, out: Path) -> None:
    videos = VideoChildren(VideoConfig(threads=THREADS))
    folder = Path(tempfile.mkdtemp(dir=out.parent))
    with clip.path.open("rb") as source:
        await videos.transcode(
            source.fileno(), folder, lambda done, total: None, short_edge=clip.short_edge, quality=QUALITY
        )
    await videos.close()
    (folder / "video.mp4").rename(out)


def _ffmpeg(program: str) -> Callable[[Clip, Path], Awaitable[None]]:
    async def work(clip: Clip, out: Path) -> None:
        arguments = ["-nostdin", "-v", "error", "-threads", str(THREADS), "-i", str(clip.path)]
        arguments += ["-vf", f"scale=-2:{clip.short_edge}:flags=bicubic,format=yuv420p"]
        arguments += ["-c:v", "libx264", "-preset", PRESET, "-crf", str(QUALITY), "-threads", str(THREADS)]
        arguments += ["-c:a", "aac", "-b:a", SOUND_BITS, "-ac", "2", "-movflags", "+faststart", str(out)]
        process = await asyncio.create_subprocess_exec(program, *arguments)
        if await process.wait():
            raise RuntimeError("ffmpeg failed")

    return work


async def _measure(clip: Clip, sides: list[Side], rounds: int, folder: Path) -> None:
    """A round that nobody counts, then `rounds` of them; each begins with another side."""
    for number in range(rounds + 1):
        for side in sides if number % 2 else sides[::-1]:
            side.out = folder / f"{side.name}-{clip.short_edge}-{number}.mp4"
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            watch = asyncio.create_task(_peak_of_children())
            begun = time.monotonic()
            await side.work(clip, side.out)
            took = time.monotonic() - begun
            watch.cancel()
            peak = await watch
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if number:
                side.speeds.append(clip.seconds / took)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                side.cpu_seconds.append(spent)
                side.peak_megabytes.append(peak)


async def _peak_of_children() -> float:
    """The greatest resident size that a process below us has had, in megabytes; asked until cancelled."""
    peak = 0.0
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            for pid in descendants(os.getpid())[1:]:
                with contextlib.suppress(OSError, StopIteration):
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    line = next(line for line in lines if line.startswith("VmHWM"))
                    peak = max(peak, int(line.split()[1]) / 1024)
            await asyncio.sleep(0.02)
    return peak


# ── the clip, and what was made of it ────────────────────────────────────────────────────────────────────


def _make_clip(path: Path, size: tuple[int, int], seconds: float) -> Path:
    """Moving shapes under a camera's noise, H.264 of a phone's size, and stereo sound."""
    with av.open(str(path), "w") as output:
        video: Any = output.add_stream("libx264", rate=30, options={"preset": "ultrafast", "crf": "20"})
        video.width, video.height, video.pix_fmt = *size, "yuv420p"
        audio: Any = output.add_stream("aac", rate=48_000, layout="stereo")
        graph = av.filter.Graph()
        source = graph.add("testsrc2", f"size={size[0]}x{size[1]}:rate=30:duration={seconds}")
        steps = [graph.add("noise", "alls=6:allf=t"), graph.add("format", "yuv420p"), graph.add("buffersink")]
        graph.link_nodes(source, *steps).configure()
        with contextlib.suppress(av.error.EOFError):
            while True:
                output.mux(video.encode(graph.vpull()))
        output.mux(video.encode(None))
        wave = np.sin(np.arange(round(seconds * 48_000)) * 2 * np.pi * 440 / 48_000).astype(np.float32) / 4
        for begin in range(0, len(wave), 1024):
            frame = av.AudioFrame.from_ndarray(
                np.tile(wave[begin : begin + 1024], (2, 1)), format="fltp", layout="stereo"
            )
            frame.sample_rate, frame.pts, frame.time_base = 48_000, begin, Fraction(1, 48_000)
            output.mux(audio.encode(frame))
        output.mux(audio.encode(None))
    return path


def _fill(report: Report, clip: Clip, sides: list[Side], judged: bool) -> None:
    ours, theirs = sides
    looked = {side.name: _look(side.out, clip) for side in sides}
    ratios = Spread.of([mine / other for mine, other in zip(ours.speeds, theirs.speeds, strict=True)])
    report.say(
        f"{clip.name}: "
        + ", ".join(
            f"{side.name} {Spread.of(side.speeds).text(2)} x real time, peak {max(side.peak_megabytes):.0f} MB"
            for side in sides
        )
    )
    report.lingxi[clip.name] = {**_figures(ours), **looked["lingxi"]}
    report.peers.setdefault("ffmpeg", {})[clip.name] = {
        **_figures(theirs),
        **looked["ffmpeg"],
        "lingxiIsTimesAsFast": ratios.as_json(2),
    }
    report.ratios[f"ffmpeg {clip.name}"] = ratios.median
    if judged:
        report.claim(
            f"{clip.name}: at least {REQUIRED_RATIO:g} × ffmpeg",
            round(ratios.median, 2),
            ratios.median >= REQUIRED_RATIO,
        )
    _compare(report, clip, looked["lingxi"], looked["ffmpeg"])


def _figures(side: Side) -> dict[str, Any]:
    return {
        "timesRealTime": Spread.of(side.speeds).as_json(2),
        "cpuSeconds": Spread.of(side.cpu_seconds).as_json(2),
        "peakMegabytes": Spread.of(side.peak_megabytes).as_json(0),
    }


def _compare(report: Report, clip: Clip, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Nobody is quicker by doing less."""
    same = all(ours[what] == theirs[what] for what in ("width", "height", "frames", "channels"))
    near = abs(ours["seconds"] - theirs["seconds"]) <= 0.05
    share = ours["kilobytes"] / theirs["kilobytes"]
    worse = theirs["psnr"] - ours["psnr"]
    low, high = BYTES_RANGE
    report.claim(
        f"{clip.name}: same size, frames, length and channels; bytes within {low:g}–{high:g}; PSNR within"
        f" {MAX_PSNR_DIFFERENCE:g} dB",
        f"bytes {share:.2f}, PSNR {-worse:+.2f} dB",
        same and near and low <= share <= high and worse <= MAX_PSNR_DIFFERENCE,
    )


def _look(out: Path | None, clip: Clip) -> dict[str, Any]:
    """What a file holds, and how near its pictures are to the source's, brought to the same size."""
    assert out is not None
    errors: list[float] = []
    with av.open(str(out), "r") as made, av.open(str(clip.path), "r") as source:
        frames = 0
        video = made.streams.video[0]
        for mine, original in zip(made.decode(video), source.decode(video=0), strict=True):
            frames += 1
            if frames % 10 == 1:
                scaled = original.reformat(width=mine.width, height=mine.height, interpolation="BICUBIC")
                difference = _luma(mine) - _luma(scaled)
                errors.append(float(np.mean(difference**2)))
        return {
            "width": video.codec_context.width,
            "height": video.codec_context.height,
            "frames": frames,
            "seconds": round((made.duration or 0) / av.time_base, 3),
            "channels": made.streams.audio[0].codec_context.channels,
            "kilobytes": round(out.stat().st_size / 1000, 1),
            "psnr": round(float(10 * np.log10(255**2 / np.mean(errors))), 2),
        }


def _luma(frame: Any) -> Any:
    return frame.to_ndarray(format="gray").astype(np.float32)
