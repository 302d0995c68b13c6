"""Videos for tests, made by code: small, with a colour in each corner, and a flash with a beep to tell when things happen."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import av.logging
import numpy as np
from numpy.typing import NDArray

av.logging.set_level(None)

RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 200, 30), (30, 30, 220), (240, 240, 240)
CORNERS = {(0.2, 0.2): RED, (0.8, 0.2): GREEN, (0.2, 0.8): BLUE, (0.8, 0.8): WHITE}
"""Upright, by place as shares of width and height."""

SAMPLE_RATE = 48_000
_TICKS = 90_000
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Sound:
    """`layout` as FFmpeg calls it; the beep is in all channels."""

    layout: str = "stereo"
    codec: str = "aac"
    start: float = 0.0
    seconds: float | None = None
    rate: int = SAMPLE_RATE


def clip(
    codec: str | None = "libx264",
    *,
    container: str = "mp4",
    size: tuple[int, int] = (160, 120),
    seconds: float = 1.0,
    rate: int = 25,
    times: Sequence[float] | None = None,
    pix_fmt: str = "yuv420p",
    colours: tuple[int, int, int] | None = None,
    rotation: tuple[float, bool, bool] | None = None,
    aspect: Fraction | None = None,
    sound: Sound | None = None,
    flash_at: float | None = None,
    black_seconds: float = 0.0,
    metadata: dict[str, str] | None = None,
    options: dict[str, str] | None = None,
    mux: dict[str, str] | None = None,
) -> bytes:
    """A file. `times`: when each frame is shown, for a variable rate. `colours`: transfer, primaries and matrix of H.273.

    `rotation`: degrees anticlockwise by which players turn it, then mirrored left to right, and top to bottom.
    """
    file = io.BytesIO()
    moments = list(times) if times is not None else [index / rate for index in range(round(seconds * rate))]
    with av.open(file, "w", format=container, options=mux or {}) as output:
        output.metadata.update(metadata or {})
        video = None
        if codec is not None:
            video = _video_stream(output, codec, size, rate, pix_fmt, options or _quick(codec))
            if aspect is not None:
                video.codec_context.sample_aspect_ratio = aspect
            if colours is not None:
                context = video.codec_context
                context.color_trc, context.color_primaries, context.colorspace = colours
                context.color_range = 1
            if rotation is not None:
                video.set_display_rotation(rotation[0], rotation[1], rotation[2])
        audio = _audio_stream(output, sound) if sound is not None else None
        if video is not None:
            for index, moment in enumerate(moments):
                bright = flash_at is not None and flash_at <= moment < flash_at + 0.2
                pixels = _pixels(*size, index, bright=bright, black=moment < black_seconds)
                matrix = "ITU709" if colours is not None and colours[2] == 1 else None
                frame = av.VideoFrame.from_ndarray(pixels, "rgb24").reformat(
                    format=pix_fmt, dst_colorspace=matrix
                )
                frame.pts, frame.time_base = round(moment * _TICKS), Fraction(1, _TICKS)
                output.mux(video.encode(frame))
            output.mux(video.encode(None))
        if audio is not None and sound is not None:
            for samples in _samples(sound, sound.seconds or seconds, flash_at):
                output.mux(audio.encode(samples))
            output.mux(audio.encode(None))
    return file.getvalue()


def _quick(codec: str) -> dict[str, str]:
    return {
        "libx264": {"preset": "ultrafast"},
        "libx265": {"preset": "ultrafast", "x265-params": "log-level=none:pools=1"},
        "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8"},
        "libsvtav1": {"preset": "12", "svtav1-params": "lp=1"},
    }.get(codec, {})


def _video_stream(
    output: Any, codec: str, size: tuple[int, int], rate: int, pix_fmt: str, options: dict[str, str]
) -> Any:
    stream = output.add_stream(codec, rate=rate, options=options)
    stream.width, stream.height = size
    stream.pix_fmt = pix_fmt
    if codec not in ("mpeg4", "mpeg2video"):
        stream.codec_context.time_base = Fraction(1, _TICKS)
    stream.codec_context.thread_count = 1
    return stream


def _audio_stream(output: Any, sound: Sound) -> Any:
    return output.add_stream(sound.codec, rate=sound.rate, layout=sound.layout)


def _pixels(width: int, height: int, index: int, *, bright: bool, black: bool) -> Pixels:
    pixels = np.zeros((height, width, 3), np.uint8)
    if black:
        return pixels
    if bright:
        pixels[:] = 255
        return pixels
    pixels[: height // 2, : width // 2] = RED
    pixels[: height // 2, width // 2 :] = GREEN
    pixels[height // 2 :, : width // 2] = BLUE
    pixels[height // 2 :, width // 2 :] = WHITE
    bar = height // 2 - max(1, height // 20)
    stripes = (np.arange(width) + index * 2) // 4 % 2 * 255
    pixels[bar : height // 2 + max(1, height // 20)] = stripes[None, :, None]
    return pixels


def _samples(sound: Sound, seconds: float, flash_at: float | None) -> Iterator[Any]:
    at = np.arange(round(sound.start * sound.rate), round(seconds * sound.rate)) / sound.rate
    wave = 0.02 * np.sin(2 * np.pi * 220 * at)
    if flash_at is not None:
        wave = np.where((at >= flash_at) & (at < flash_at + 0.2), 0.8 * np.sin(2 * np.pi * 1000 * at), 0.0)
    channels = len(av.AudioLayout(sound.layout).channels)
    for begin in range(0, len(wave), 1024):
        block = np.tile(wave[begin : begin + 1024].astype(np.float32), (channels, 1))
        frame = av.AudioFrame.from_ndarray(block, format="fltp", layout=sound.layout)
        frame.sample_rate = sound.rate
        frame.pts, frame.time_base = begin + round(sound.start * sound.rate), Fraction(1, sound.rate)
        yield frame


@dataclass(frozen=True, slots=True)
class Seen:
    """What a player sees of a file."""

    container: str
    codecs: tuple[str, ...]
    size: tuple[int, int]
    times: tuple[float, ...]
    pictures: tuple[Pixels, ...]
    sound: NDArray[np.float32] | None  # (channels, samples), from the file's beginning on
    sound_start: float
    rotation: int
    pix_fmt: str
    colours: tuple[int, int, int, int]
    seconds: float
    aspect: Fraction | None

    def colour(self, x: float, y: float, index: int = 0) -> list[float]:
        """Around a place given as shares of width and height."""
        pixels = self.pictures[index]
        height, width, _ = pixels.shape
        side = max(1, min(width, height) // 10)
        left, top = min(int(x * width), width - side), min(int(y * height), height - side)
        block = pixels[top : top + side, left : left + side]
        return [float(value) for value in block.reshape(-1, 3).mean(axis=0)]

    def flash_time(self) -> float:
        """When the first all bright frame is shown."""
        return next(time for time, one in zip(self.times, self.pictures, strict=True) if one.min() > 200)

    def beep_time(self) -> float:
        """When it becomes loud."""
        assert self.sound is not None
        loud = np.abs(self.sound).max(axis=0) > 0.2
        return self.sound_start + float(np.argmax(loud)) / SAMPLE_RATE


def seen(data: bytes) -> Seen:
    """Decode all of a file."""
    with av.open(io.BytesIO(data), "r") as file:
        video = file.streams.video[0]
        frames = list(file.decode(video))
        first = frames[0]
        context = video.codec_context
        sizes = (context.width, context.height)
        colours = (context.color_trc, context.color_primaries, context.colorspace, context.color_range)
        codecs = tuple(stream.codec_context.name for stream in file.streams)
        container, pix_fmt, aspect = file.format.name, context.pix_fmt or "", video.sample_aspect_ratio
        seconds = (file.duration or 0) / av.time_base
    pictures = tuple(frame.to_ndarray(format="rgb24").astype(np.uint8) for frame in frames)
    times = tuple(float(frame.time) for frame in frames)
    sound, start = _heard(data)
    return Seen(
        container,
        codecs,
        sizes,
        times,
        pictures,
        sound,
        start,
        first.rotation,
        pix_fmt,
        colours,
        seconds,
        aspect,
    )


def _heard(data: bytes) -> tuple[NDArray[np.float32] | None, float]:
    with av.open(io.BytesIO(data), "r") as file:
        if not file.streams.audio:
            return None, 0.0
        resampler = av.AudioResampler(format="fltp", rate=SAMPLE_RATE)
        frames = list(file.decode(file.streams.audio[0]))
        start = float(frames[0].time or 0.0)
        parts = [part.to_ndarray() for frame in [*frames, None] for part in resampler.resample(frame)]
    return np.concatenate(parts, axis=1).astype(np.float32), start


def top_level_boxes(data: bytes) -> list[str]:
    """Of an MP4, in order."""
    found, at = [], 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        found.append(data[at + 4 : at + 8].decode("latin-1"))
        at += size if size >= 8 else len(data)
    return found
