"""When each picture is shown, also where the file does not say so."""

from typing import Any, Final

_WITHOUT_TIMES: Final = {"avi"}


class Moments:
    """`set(packet, frame)` gives each frame that a decoder puts out its time; one for each pass or seek.

    AVI says in which order packets are decoded, a step each, and never when a picture is shown; what libavformat makes of that
    goes back and forth where there are B-frames. But pictures leave the decoder in the order in which they are shown, so each
    has the time of the packet that pushed it out, less by how many packets the decoder lags behind.
    """

    def __init__(self, demuxer: str) -> None:
        self._are_missing = demuxer in _WITHOUT_TIMES
        self._first: int | None = None
        self._lag = 0
        self._last: int | None = None
        self._step = 1

    def saw(self, packet: Any) -> None:
        """Before the packet is decoded."""
        if self._first is None and packet is not None:
            self._first = packet.dts

    def correct(self, frame: Any) -> None:
        """A frame of the stream's pictures, in the order in which they come."""
        if not self._are_missing or self._first is None:
            return
        if frame.dts is None:  # of those that come when a decoder is flushed
            frame.pts = self._first if self._last is None else self._last + self._step
        elif self._last is None:
            self._lag, frame.pts = frame.dts - self._first, self._first
        else:
            frame.pts = frame.dts - self._lag
            self._step = max(1, frame.pts - self._last)
        frame.duration = self._step
        self._last = frame.pts
