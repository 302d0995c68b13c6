"""What a file of moving pictures or sound holds: its streams and what they say about themselves. One frame is decoded."""

import re
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

import av
import av.error

from lingxi.video import turn
from lingxi.video.colours import HLG, PQ
from lingxi.video.source import VIDEO_CODECS, Source

_MAX_TEXT: Final = 200
_POSITION: Final = re.compile(r"([+-]\d+(?:\.\d+)?)([+-]\d+(?:\.\d+)?)(?:([+-]\d+(?:\.\d+)?))?")
_POSITION_KEYS: Final = ("com.apple.quicktime.location.ISO6709", "location", "location-eng")
_MAKES: Final = ("com.apple.quicktime.make", "com.android.manufacturer", "make")
_MODELS: Final = ("com.apple.quicktime.model", "com.android.model", "model")
_CAPTURED: Final = ("com.apple.quicktime.creationdate", "creation_time")
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:Z|([+-]\d\d):?(\d\d))?", re.ASCII
)
_ERRORS: Final = (av.error.FFmpegError, ValueError, OverflowError, ZeroDivisionError, AttributeError)


def probe(source: Source) -> dict[str, Any]:
    """Facts as JSON takes them; what cannot be read is None and named in `damaged`. VideoError when nothing can be."""
    damaged: list[str] = []
    frame = _first_frame(source, damaged)
    metadata = {name.lower(): value for name, value in _metadata(source).items()}
    position = _position(metadata)
    return {
        "content_type": source.kind.content_type,
        "container": source.container.format.name,
        "duration_seconds": None if source.seconds is None else round(source.seconds, 6),
        "is_cut": source.cut,
        "video": [
            _read(f"video {stream.index}", _video, stream, frame if stream is source.video else None, damaged)
            for stream in source.container.streams.video
        ],
        "audio": [
            _read(f"audio {stream.index}", _audio, stream, None, damaged)
            for stream in source.container.streams.audio
        ],
        "other_streams": len(source.container.streams)
        - len(source.container.streams.video)
        - len(source.container.streams.audio),
        "make": _text(metadata, _MAKES),
        "model": _text(metadata, _MODELS),
        "captured_at": _captured_at(metadata, damaged),
        "has_position": any(key.lower() in metadata for key in _POSITION_KEYS),
        "position": position,
        "damaged": damaged,
    }


def _read(
    name: str, read: Callable[[Any, Any], dict[str, Any]], stream: Any, frame: Any, damaged: list[str]
) -> dict[str, Any]:
    try:
        return read(stream, frame)
    except _ERRORS:
        damaged.append(name)
        return {"index": stream.index, "codec": None}


def _first_frame(source: Source, damaged: list[str]) -> Any | None:
    """Rotation, colours and interlacing are known from a frame."""
    stream = source.video
    if stream is None or stream.codec_context is None or stream.codec_context.name not in VIDEO_CODECS:
        return None
    stream.thread_type = "NONE"
    try:
        for packet in source.container.demux(stream):
            for frame in stream.decode(packet):
                return frame
    except av.error.FFmpegError:
        pass
    damaged.append("frames")
    return None


def _video(stream: Any, frame: Any | None) -> dict[str, Any]:
    context = stream.codec_context
    matrix = turn.matrix_of(frame) if frame is not None else None
    width, height = context.width, context.height
    aspect = stream.sample_aspect_ratio or Fraction(1)
    if aspect > 1:
        width = round(width * aspect)
    elif 0 < aspect < 1:
        height = round(height / aspect)
    if turn.swaps_axes(matrix):
        width, height = height, width
    transfer = int(frame.color_trc if frame is not None else context.color_trc)
    return {
        **_any(stream),
        "width": width,
        "height": height,
        "coded_width": context.width,
        "coded_height": context.height,
        "rotation": turn.clockwise_degrees(matrix),
        "frame_rate": _rate(stream.average_rate or stream.guessed_rate),
        "pixel_format": context.pix_fmt,
        "bit_depth": max((one.bits for one in context.format.components), default=8)
        if context.format
        else None,
        "hdr": {PQ: "pq", HLG: "hlg"}.get(transfer),
        "is_interlaced": bool(frame.interlaced_frame) if frame is not None else None,
        "is_cover": bool(stream.disposition & av.stream.Disposition.attached_pic),
    }


def _audio(stream: Any, _: Any) -> dict[str, Any]:
    context = stream.codec_context
    return {
        **_any(stream),
        "channels": context.channels,
        "layout": context.layout.name,
        "sample_rate": context.sample_rate,
        "bit_rate": context.bit_rate or None,
    }


def _any(stream: Any) -> dict[str, Any]:
    seconds = None
    if stream.duration and stream.time_base:
        seconds = round(float(stream.duration * stream.time_base), 6)
    context = stream.codec_context
    return {
        "index": stream.index,
        "codec": context.codec.canonical_name if context is not None else None,
        "profile": stream.profile,
        "duration_seconds": seconds,
        "language": None if stream.language in (None, "und") else str(stream.language)[:8],
    }


def _rate(rate: Fraction | None) -> float | None:
    return round(float(rate), 4) if rate and rate > 0 else None


def _metadata(source: Source) -> dict[str, str]:
    """Of the file, and of its video stream where the file says nothing."""
    video = source.video
    return {**(dict(video.metadata) if video is not None else {}), **dict(source.container.metadata)}


def _text(metadata: dict[str, str], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if text := metadata.get(key.lower()):
            cleaned = "".join(one for one in text if one.isprintable()).strip()[:_MAX_TEXT]
            if cleaned:
                return cleaned
    return None


def _captured_at(metadata: dict[str, str], damaged: list[str]) -> str | None:
    """With its offset: QuickTime's own is the place's, the one of the header is UTC."""
    for key in _CAPTURED:
        text = metadata.get(key.lower())
        if not text:
            continue
        found = _TIME.fullmatch(text.strip())
        try:
            moment = _moment(*found.groups()) if found else None
        except ValueError:  # the 31st of February
            moment = None
        if moment is None:
            damaged.append("captured_at")
        elif not moment.startswith(("1904-", "1970-01-01")):  # a clock that was never set
            return moment
    return None


def _moment(date: str, clock: str, hours: str | None, minutes: str | None) -> str:
    text = f"{date}T{clock}{f'{hours}:{minutes}' if hours else '+00:00'}"
    datetime.fromisoformat(text)
    return text


def _position(metadata: dict[str, str]) -> dict[str, float] | None:
    """ISO 6709: latitude, longitude and perhaps the height, with their signs, in decimal degrees and metres."""
    for key in _POSITION_KEYS:
        if found := _POSITION.match(metadata.get(key.lower(), "")):
            latitude, longitude, altitude = (None if part is None else float(part) for part in found.groups())
            if latitude is None or longitude is None or abs(latitude) > 90 or abs(longitude) > 180:
                continue
            place = {"latitude": latitude, "longitude": longitude}
            return place if altitude is None else {**place, "altitude_meters": altitude}
    return None
