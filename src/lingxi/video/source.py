"""A file opened for reading: which of its streams count, and what it says about itself. Nothing else can be opened
through it: the demuxer is ours to choose, and it may read no other file and no address."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import av
import av.error

from lingxi.video import limits
from lingxi.video.errors import VideoError
from lingxi.video.sniff import HEAD_BYTES, MediaKind, sniff
from lingxi.video.wholeness import is_cut

_VIDEO: Final = (
    "h264 hevc vp8 vp9 libvpx libvpx-vp9 av1 libdav1d mpeg4 mpeg2video mpeg1video h263 mjpeg prores dvvideo theora"
    " vc1 wmv3 flv1 flv dnxhd cfhd ffv1 rawvideo v210 qtrle png"
)
_AUDIO: Final = (
    "aac aac_latm mp3 mp3float mp2 mp2float mp1 opus libopus vorbis libvorbis ac3 eac3 dca truehd flac alac amrnb amrwb"
    " libopencore_amrnb libopencore_amrwb pcm_s16le pcm_s16be pcm_s24le pcm_s24be pcm_s32le pcm_s32be pcm_f32le pcm_f32be"
    " pcm_f64le pcm_f64be pcm_u8 pcm_s8 pcm_alaw pcm_mulaw pcm_bluray pcm_dvd adpcm_ima_wav adpcm_ima_qt adpcm_ms qdm2"
    " wmav1 wmav2"
)
VIDEO_CODECS: Final = frozenset(_VIDEO.split())
AUDIO_CODECS: Final = frozenset(_AUDIO.split())
_LENGTH_FROM_ZERO: Final = {"matroska", "flv"}  # they say when they end, as long as they begin at zero
_PRIMING_SECONDS: Final = Fraction(1, 10)
_DOLBY_ONLY_TAGS: Final = {"dvh1", "dvhe", "dva1", "dvav", "dav1"}


@dataclass(slots=True)
class Source:
    """An open file. `cut`: it is shorter than it says."""

    container: Any
    kind: MediaKind
    size_bytes: int
    cut: bool
    video: Any | None
    audio: Any | None

    @property
    def start(self) -> Fraction:
        """The picture's, unless sound begins long before: what an encoder primes itself with is no sound."""
        container, video = self.container.start_time, self.video
        start = Fraction(container, av.time_base) if container is not None else Fraction(0)
        if video is not None and video.start_time is not None and video.time_base:
            pictures = Fraction(video.start_time * video.time_base)
            if abs(pictures - start) < _PRIMING_SECONDS:
                return pictures
        return start

    @property
    def seconds(self) -> float | None:
        """How long it says that it lasts."""
        duration, start = self.container.duration, self.container.start_time or 0
        if not duration or duration <= 0:
            return None
        if self.kind.demuxer in _LENGTH_FROM_ZERO and 0 < start < duration:
            duration -= start
        return float(duration / av.time_base)

    @property
    def stream_seconds(self) -> float | None:
        """How long the video stream itself says that it lasts."""
        stream = self.video
        if stream is not None and stream.duration and stream.time_base:
            return float(stream.duration * stream.time_base)
        return None

    @property
    def video_seconds(self) -> float | None:
        """How long the pictures last, as far as anything says so."""
        return self.stream_seconds or self.seconds

    def need_video(self) -> Any:
        """The video stream, known to be decodable; VideoError."""
        stream = self.video
        if stream is None:
            raise VideoError("unsupported_type", "The file holds no video.")
        check_codec(stream, VIDEO_CODECS)
        if not stream.codec_context.width or not stream.codec_context.height:
            raise unreadable(self.cut)
        limits.check_pixels(stream.codec_context.width, stream.codec_context.height)
        if self.seconds is not None:
            limits.check_seconds(self.seconds)
        if stream.codec_tag in _DOLBY_ONLY_TAGS:
            raise VideoError(
                "hdr_unsupported", "The video is Dolby Vision without a layer that others can show."
            )
        return stream


@contextmanager
def open_source(descriptor: int) -> Iterator[Source]:
    """The file behind a descriptor, from its start. VideoError when it is refused or cannot be opened."""
    size = os.fstat(descriptor).st_size
    limits.check_file_size(size)
    kind = sniff(os.pread(descriptor, HEAD_BYTES, 0))
    cut = is_cut(descriptor, kind.demuxer)
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        container = av.open(
            "fd:",
            format=kind.demuxer,
            metadata_errors="replace",
            container_options={
                "fd": str(descriptor),
                "protocol_whitelist": "fd",
                "codec_whitelist": ",".join(VIDEO_CODECS | AUDIO_CODECS),
                "max_streams": str(limits.MAX_STREAMS + 1),
            },
        )
    except MemoryError:  # the limit of this process: not the file's damage
        raise
    except (av.error.FFmpegError, ValueError) as error:
        raise unreadable(cut) from error
    with container:
        limits.check_streams(len(container.streams))
        video = [one for one in container.streams.video if not one.disposition & _attached()]
        audio = list(container.streams.audio)
        yield Source(container, kind, size, cut, _best(video, _pixels), _best(audio, _channels))


def unreadable(cut: bool) -> VideoError:
    """The error for a file of which nothing can be read."""
    if cut:
        return VideoError("truncated_video", "The file is cut off: nothing of it can be read (0 seconds).")
    return VideoError("corrupt_video", "The file is damaged: nothing of it can be read.")


def check_codec(stream: Any, accepted: frozenset[str]) -> None:
    """VideoError `unsupported_type` for what we do not decode."""
    context = stream.codec_context
    if context is None or context.name not in accepted:
        name = context.name if context is not None else "unknown"
        raise VideoError("unsupported_type", f"The {stream.type} codec {name} is not accepted.")


def _attached() -> Any:
    return av.stream.Disposition.attached_pic | av.stream.Disposition.timed_thumbnails


def _best(streams: list[Any], measure: Any) -> Any | None:
    default = av.stream.Disposition.default
    return max(
        streams, key=lambda one: (bool(one.disposition & default), measure(one), -one.index), default=None
    )


def _pixels(stream: Any) -> int:
    context = stream.codec_context
    return context.width * context.height if context is not None else 0


def _channels(stream: Any) -> int:
    context = stream.codec_context
    return int(context.channels) if context is not None else 0
