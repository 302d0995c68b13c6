"""One video as MP4 for the web."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from lingxi.video import limits
from lingxi.video.errors import VideoError
from lingxi.video.mp4 import Mp4
from lingxi.video.pictures import Pictures
from lingxi.video.reading import Reading
from lingxi.video.sound import Sound
from lingxi.video.source import AUDIO_CODECS, Source, check_codec, unreadable

PRESET: Final = "veryfast"
_USUAL_RATE: Final = Fraction(30)
_MOST_WAITING: Final = 5000  # frames of sound, without a picture: nearly two minutes
Tell = Callable[[float, float | None], None]


@dataclass(frozen=True, slots=True)
class TranscodeOptions:
    """`short_edge`: 1080 means within 1920 x 1080, or 1080 x 1920. `quality` is x264's CRF."""

    short_edge: int = 1080
    quality: int = 23
    allow_truncated: bool = False
    threads: int = 2


def transcode(source: Source, descriptor: int, options: TranscodeOptions, tell: Tell) -> dict[str, Any]:
    """Write the MP4 to a descriptor; facts of it. `tell(done, total)` is called with seconds of the video.

    VideoError when it is refused: what was written then means nothing.
    """
    return _Transcoding(source, descriptor, options, tell).run()


class _Transcoding:
    def __init__(self, source: Source, descriptor: int, options: TranscodeOptions, tell: Tell) -> None:
        self.source, self.options, self.tell = source, options, tell
        self.video = source.need_video()
        self.streams = [self.video]
        self.sound: Sound | None = None
        if source.audio is not None:
            check_codec(source.audio, AUDIO_CODECS)
            self.streams.append(source.audio)
            self.sound = Sound(source.audio, source.start)
        self.reading = Reading(source, self.streams)
        long_edge = options.short_edge * 16 // 9
        self.pictures = Pictures(self.video, long_edge, options.short_edge, threads=options.threads)
        self.video.codec_context.thread_count = options.threads
        self.video.thread_type = "AUTO"
        self.mp4 = Mp4(descriptor)
        self.waiting: list[Any] = []  # sound that comes before the first picture

    def run(self) -> dict[str, Any]:
        if self.source.cut and not self.options.allow_truncated:
            raise _truncated(self._readable_seconds())
        for stream, frame in self.reading.frames_in_order():
            if stream is self.video:
                limits.check_seconds(self.reading.read_seconds)
                self.tell(self.reading.read_seconds, self.source.seconds)
                for picture in self.pictures.push(frame):
                    self._write_picture(picture)
            elif self.sound is not None:
                for samples in self.sound.push(frame):
                    self._write_sound(samples)
        return self._finish()

    def _finish(self) -> dict[str, Any]:
        reading, mp4 = self.reading, self.mp4
        for picture in self.pictures.flush():
            self._write_picture(picture)
        if reading.is_corrupt():
            raise unreadable(self.source.cut or reading.broke_off)
        if (short := reading.is_short()) and not self.options.allow_truncated:
            raise _truncated(reading.read_seconds)
        if self.sound is not None:
            for samples in self.sound.flush():
                self._write_sound(samples)
        mp4.finish()
        width, height = self.pictures.size or (0, 0)
        return {
            "width": width,
            "height": height,
            "duration_seconds": round(mp4.ended_at_seconds, 6),
            "frames": mp4.frames,
            "rotation": self.pictures.rotation,
            "tone_mapped": self.pictures.tone_mapped,
            "audio_channels": self.sound.channels if self.sound is not None else 0,
            "damaged_packets": reading.damaged,
            "truncated_at_seconds": round(reading.read_seconds, 3) if short else None,
        }

    def _write_picture(self, picture: Any) -> None:
        if not self.mp4.has_pictures:
            self._begin()
        seconds = picture.pts * picture.time_base - self.source.start
        self.mp4.write_picture(picture, seconds)
        if self.waiting:
            for samples in self.waiting:
                self.mp4.write_sound(samples)
            self.waiting.clear()

    def _begin(self) -> None:
        assert self.pictures.size is not None
        self.mp4.add_pictures(
            self.pictures.size,
            usual_rate(self.video),
            self.video.time_base,
            quality=self.options.quality,
            preset=PRESET,
            threads=self.options.threads,
        )
        if self.sound is not None:
            self.mp4.add_sound(self.sound)

    def _write_sound(self, samples: Any) -> None:
        if self.mp4.has_pictures:
            self.mp4.write_sound(samples)
        elif len(self.waiting) < _MOST_WAITING:
            self.waiting.append(samples)
        else:
            raise unreadable(self.source.cut)

    def _readable_seconds(self) -> float:
        """How far the picture goes, by its packets: nothing is decoded."""
        end = Fraction(0)
        container = self.source.container
        try:
            for packet in container.demux(self.video):
                if packet.pts is not None and packet.size:
                    end = max(end, (packet.pts + (packet.duration or 0)) * packet.time_base)
        except OSError:
            pass
        return max(0.0, float(end - self.source.start))


def usual_rate(stream: Any) -> Fraction:
    """Frames a second, for the encoder's sense of time only."""
    rate = stream.average_rate or stream.guessed_rate
    return rate if rate and 1 <= rate <= 240 else _USUAL_RATE


def _truncated(seconds: float) -> VideoError:
    return VideoError("truncated_video", f"The file is cut off: it can be read up to {seconds:.1f} seconds.")
