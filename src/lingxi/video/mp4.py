"""An MP4 that a browser plays while it loads: H.264 (and AAC), its index at the front, timestamps as they were."""

import errno
from fractions import Fraction
from typing import Any, Final

import av
import av.error

from lingxi.video.errors import VideoError
from lingxi.video.sound import Sound

_FINEST: Final = 90_000  # ticks a second where the source counts in smaller ones
_SOUND_BITS_A_CHANNEL: Final = 64_000


class Mp4:
    """Written to a descriptor, which it must be possible to open again. VideoError when the disk refuses it."""

    def __init__(self, descriptor: int) -> None:
        self._container: Any = av.open(
            f"/proc/self/fd/{descriptor}", "w", format="mp4", container_options={"movflags": "+faststart"}
        )
        self._video: Any = None
        self._audio: Any = None
        self._base = Fraction(1, _FINEST)
        self._last_tick: int | None = None
        self._last_ticks = 0  # for how long the last frame is shown
        self._shown_ticks: dict[int, int] = {}  # of the frames that the encoder holds, by their time
        self.frames = 0
        self.ended_at_seconds = 0.0

    @property
    def has_pictures(self) -> bool:
        """Was `add_pictures` called?"""
        return self._video is not None

    def add_sound(self, sound: Sound) -> None:
        """Before the first frame."""
        stream = self._container.add_stream("aac", rate=sound.rate, layout=sound.layout)
        stream.bit_rate = _SOUND_BITS_A_CHANNEL * sound.channels
        self._audio = stream

    def add_pictures(
        self,
        size: tuple[int, int],
        rate: Fraction,
        base: Fraction,
        *,
        quality: int,
        preset: str,
        threads: int,
    ) -> None:
        """Before the first frame. `quality` is x264's CRF: smaller is better."""
        if 0 < base.denominator <= _FINEST:
            self._base = base
        options = {"crf": str(quality), "preset": preset}
        stream = self._container.add_stream("libx264", rate=rate, options=options)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.time_base = self._base
        context.thread_count = threads
        context.thread_type = "FRAME"  # slices would cost quality
        self._video = stream
        self._last_ticks = max(1, round(1 / rate / self._base))

    def write_picture(self, frame: Any, seconds: Fraction) -> None:
        """A frame that is shown from `seconds` on; dropped where that is not after the one before."""
        tick = round(seconds / self._base)
        if tick < 0 or (self._last_tick is not None and tick <= self._last_tick):
            return
        if self._last_tick is not None:
            self._shown_ticks[self._last_tick] = self._last_ticks = tick - self._last_tick
        if frame.duration:
            self._last_ticks = max(1, round(frame.duration * frame.time_base / self._base))
        if not self.frames:
            self._take_colours(frame)
        self._last_tick = tick
        frame.pts, frame.time_base = tick, self._base
        frame.pict_type = 0
        self.frames += 1
        self._mux_pictures(self._video.encode(frame))

    def write_sound(self, frame: Any) -> None:
        """A frame of samples, in time since the beginning."""
        self._mux(self._audio.encode(frame))

    def finish(self) -> None:
        """Write what encoders still hold, and the index."""
        if self._video is not None:
            last = self._last_tick or 0
            self._shown_ticks[last] = self._last_ticks
            self._mux_pictures(self._video.encode(None))
            self.ended_at_seconds = float((last + self._last_ticks) * self._base)
        if self._audio is not None:
            self._mux(self._audio.encode(None))
        try:
            self._container.close()
        except av.error.FFmpegError as error:
            raise _not_written(error) from error

    def _take_colours(self, frame: Any) -> None:
        context = self._video.codec_context
        context.colorspace = frame.colorspace
        context.color_primaries = frame.color_primaries
        context.color_trc = frame.color_trc
        context.color_range = 1

    def _mux_pictures(self, packets: Any) -> None:
        """Each with how long it is shown: the muxer would think that the last one is shown for no time at all."""
        for packet in packets:
            packet.duration = self._shown_ticks.pop(packet.pts, None) or packet.duration
        self._mux(packets)

    def _mux(self, packets: Any) -> None:
        try:
            self._container.mux(packets)
        except av.error.FFmpegError as error:
            raise _not_written(error) from error


def _not_written(error: av.error.FFmpegError) -> VideoError:
    if error.errno == errno.EFBIG:
        return VideoError("too_large", "The result is larger than is accepted.")
    if error.errno == errno.EINVAL:  # the muxer's word for times that go back
        return VideoError("corrupt_video", "The times in the file cannot be put in order.")
    return VideoError("storage_unavailable", f"The result could not be written: {error.strerror}.")
