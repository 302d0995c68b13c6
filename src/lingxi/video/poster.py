"""A poster, the best of several frames, and a short silent preview from around it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import av
import av.error

from lingxi.video.errors import VideoError
from lingxi.video.moments import Moments
from lingxi.video.mp4 import Mp4
from lingxi.video.pictures import Pictures
from lingxi.video.score import Score, score
from lingxi.video.source import Source, unreadable
from lingxi.video.transcode import PRESET, usual_rate

_CANDIDATES: Final = 12
_DECODED_A_CANDIDATE: Final = 100  # frames at most, from the key frame before it on
_FRAMES_OF_ONE_PASS: Final = 750  # a video that is as short is read through, and looked at twice as often
_POSTER_EDGES: Final = (1920, 1080)
_PREVIEW_EDGES: Final = (640, 360)
_PREVIEW_RATE: Final = 30
_PREVIEW_QUALITY: Final = 28
_JPEG_SCALE: Final = 3  # of mjpeg's quantiser: 2 is the best


@dataclass(frozen=True, slots=True)
class PosterOptions:
    """`at_seconds`: this moment instead of the best. `preview_seconds`: 0 for none."""

    at_seconds: float | None = None
    preview_seconds: float = 5.0
    threads: int = 2


@dataclass(slots=True)
class Candidate:
    """A decoded frame, when it is shown, and how good it would be."""

    frame: Any
    seconds: float
    score: Score


def make_poster(source: Source, poster: int, preview: int, options: PosterOptions) -> dict[str, Any]:
    """Write the JPEG and the MP4 to descriptors; facts of them. VideoError when the video is refused."""
    stream = source.need_video()
    stream.codec_context.thread_count = options.threads
    stream.thread_type = "AUTO"
    best = _best(source, stream, options)
    pictures = Pictures(stream, *_POSTER_EDGES, jpeg=True, threads=options.threads)
    shown = next(iter([*pictures.push(best.frame), *pictures.flush()]))
    facts: dict[str, Any] = {
        "at_seconds": round(best.seconds, 3),
        "width": shown.width,
        "height": shown.height,
        "rotation": pictures.rotation,
        "tone_mapped": pictures.tone_mapped,
        "is_poor": best.score.is_poor,
        "preview": None,
    }
    _write_all(poster, _jpeg(shown))
    if options.preview_seconds > 0:
        facts["preview"] = _write_preview(source, stream, preview, best.seconds, options)
    return facts


def _best(source: Source, stream: Any, options: PosterOptions) -> Candidate:
    if options.at_seconds is not None:
        return _near(source, stream, options.at_seconds) or _first(source, stream)
    seconds = source.video_seconds
    if not seconds:
        looked_at = _from_the_start(source, stream)
    elif seconds * usual_rate(stream) <= _FRAMES_OF_ONE_PASS:
        looked_at = _in_one_pass(source, stream, _places(seconds, 2 * _CANDIDATES))
    else:
        places = _places(seconds, _CANDIDATES)
        looked_at = (one for place in places if (one := _near(source, stream, place)) is not None)
    best = max(looked_at, key=_value, default=None)
    if best is None or best.score.is_poor:  # a file that cannot be sought in, or black where we looked
        best = max([*([best] if best else []), *_from_the_start(source, stream)], key=_value, default=None)
    if best is None:
        raise unreadable(source.cut)
    return best


def _value(candidate: Candidate) -> float:
    return candidate.score.value


def _in_one_pass(source: Source, stream: Any, places: list[float]) -> Iterator[Candidate]:
    """The first frame at or after each of the places."""
    waiting = list(reversed(places))
    for frame, at in _frames_from(source, stream, 0.0):
        if waiting and at >= waiting[-1]:
            while waiting and at >= waiting[-1]:
                waiting.pop()
            yield Candidate(frame, at, score(frame))


def _places(seconds: float, count: int) -> list[float]:
    """Moments to look at, spread over the video, its very ends left out."""
    return [seconds * (index + 0.5) / count for index in range(count)]


def _near(source: Source, stream: Any, seconds: float) -> Candidate | None:
    """The first frame at or after a moment; the last that was decoded where that is far from a key frame."""
    found: tuple[Any, float] | None = None
    for count, (frame, at) in enumerate(_frames_from(source, stream, seconds)):
        found = frame, at
        if at >= seconds - 0.001 or count >= _DECODED_A_CANDIDATE:
            break
    return None if found is None else Candidate(*found, score(found[0]))


def _first(source: Source, stream: Any) -> Candidate:
    for frame, at in _frames_from(source, stream, 0.0):
        return Candidate(frame, at, score(frame))
    raise unreadable(source.cut)


def _from_the_start(source: Source, stream: Any) -> Iterator[Candidate]:
    """Some of the first frames, further and further apart."""
    wanted = 0
    for index, (frame, at) in enumerate(_frames_from(source, stream, 0.0)):
        if index == wanted:
            yield Candidate(frame, at, score(frame))
            wanted = int(wanted * 1.5) + 1
        if index > 600:
            return


def _frames_from(source: Source, stream: Any, seconds: float) -> Iterator[tuple[Any, float]]:
    """Frames and their moments from the key frame before `seconds` on; none where nothing can be read."""
    container = source.container
    try:
        target = (Fraction(seconds).limit_denominator(1000) + source.start) / stream.time_base
        container.seek(int(target), stream=stream, backward=True)
    except av.error.FFmpegError:
        return
    packets, moments = container.demux(stream), Moments(source.kind.demuxer)
    while True:
        try:
            packet = next(packets)
            moments.saw(packet)
            frames = stream.decode(packet)
        except (StopIteration, av.error.EOFError):
            return
        except av.error.FFmpegError:
            continue
        for frame in frames:
            moments.correct(frame)
            if frame.pts is not None:
                frame.time_base = frame.time_base or stream.time_base  # None when a decoder is flushed
                yield frame, float(frame.pts * frame.time_base - source.start)
        if not packet.size:
            return


def _write_preview(
    source: Source, stream: Any, descriptor: int, poster_seconds: float, options: PosterOptions
) -> dict[str, Any]:
    length = options.preview_seconds
    whole = source.video_seconds or 0.0
    begin = max(0.0, min(poster_seconds - length / 4, whole - length))
    pictures = Pictures(stream, *_PREVIEW_EDGES, threads=options.threads)
    mp4 = Mp4(descriptor)
    first: Fraction | None = None
    last = Fraction(-1)
    for frame, at in _frames_from(source, stream, begin):
        if at < begin - 0.001:
            continue
        moment = Fraction(frame.pts) * frame.time_base
        first = moment if first is None else first
        shown_for = Fraction(frame.duration or 0) * frame.time_base
        if float(moment - first + shown_for) > length + 1e-6:
            break
        if moment - last < Fraction(9, 10 * _PREVIEW_RATE) and last >= 0:
            continue
        last = moment
        for picture in pictures.push(frame):
            _write_picture(mp4, pictures, stream, picture, first, options)
    for picture in pictures.flush():
        _write_picture(mp4, pictures, stream, picture, first or Fraction(0), options)
    if not mp4.frames:
        raise VideoError("corrupt_video", "No frame of the video could be decoded for a preview.")
    mp4.finish()
    width, height = pictures.size or (0, 0)
    return {
        "width": width,
        "height": height,
        "duration_seconds": round(mp4.ended_at_seconds, 6),
        "frames": mp4.frames,
    }


def _write_picture(
    mp4: Mp4, pictures: Pictures, stream: Any, picture: Any, first: Fraction, options: PosterOptions
) -> None:
    if not mp4.has_pictures:
        rate = min(usual_rate(stream), Fraction(_PREVIEW_RATE))
        mp4.add_pictures(
            pictures.size or (2, 2),
            rate,
            stream.time_base,
            quality=_PREVIEW_QUALITY,
            preset=PRESET,
            threads=options.threads,
        )
    mp4.write_picture(picture, picture.pts * picture.time_base - first)


def _jpeg(frame: Any) -> bytes:
    """Baseline JPEG, which without a profile means sRGB."""
    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height = frame.width, frame.height
    encoder.pix_fmt = frame.format.name
    encoder.time_base = Fraction(1, 1)
    encoder.color_range = 2
    encoder.qscale = True
    encoder.global_quality = _JPEG_SCALE * 118
    encoder.flags |= av.codec.context.Flags.bitexact
    frame.pts, frame.time_base = 0, Fraction(1, 1)
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise VideoError(
            "storage_unavailable", f"The poster could not be written: {error.strerror}."
        ) from error
