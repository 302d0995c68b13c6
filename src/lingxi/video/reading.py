"""Packets and frames of a source, as far as they can be read, and how far that was."""

from collections.abc import Iterator
from typing import Any, Final

import av.error

from lingxi.video.source import Source

_TOLERATED_SHARE: Final = 0.1  # of a stream's packets may be damaged
_SHORTFALL_SECONDS: Final = 0.5  # what may be missing at the end before we speak of it


class Reading:
    """One pass over a source. `read_seconds` is how far the picture was read; `damaged` counts packets that were not."""

    def __init__(self, source: Source, streams: list[Any]) -> None:
        self._source = source
        self._streams = streams
        self.packets = 0
        self.damaged = 0
        self.frames = 0
        self.read_seconds = 0.0
        self.broke_off = False

    def frames_in_order(self) -> Iterator[tuple[Any, Any]]:
        """(stream, frame) as they come."""
        for packet in self._demux():
            stream = packet.stream
            self.packets += packet.size > 0
            yield from self._decode(stream, packet)
        for stream in self._streams:
            yield from self._decode(stream, None)

    def is_short(self) -> bool:
        """Is less there than the file says?"""
        if self._source.cut or self.broke_off:
            return True
        said = self._source.video_seconds
        return said is not None and self.read_seconds < said - max(_SHORTFALL_SECONDS, 0.05 * said)

    def is_corrupt(self) -> bool:
        """Is too much of it damaged, or all?"""
        return self.frames == 0 or self.damaged > _TOLERATED_SHARE * self.packets

    def _demux(self) -> Iterator[Any]:
        packets = self._source.container.demux(self._streams)
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except av.error.FFmpegError:
                self.broke_off = True
                return
            if packet.size:  # the empty ones mean the end; decoders are flushed by ourselves
                yield packet

    def _decode(self, stream: Any, packet: Any) -> Iterator[tuple[Any, Any]]:
        try:
            frames = stream.decode(packet)
        except av.error.EOFError:
            return
        except av.error.FFmpegError:
            self.damaged += 1
            return
        for frame in frames:
            if stream.type == "video":
                self._note(frame)
            yield stream, frame

    def _note(self, frame: Any) -> None:
        self.frames += 1
        if frame.pts is not None and frame.time_base is not None:
            end = (frame.pts + (frame.duration or 0)) * frame.time_base - self._source.start
            self.read_seconds = max(self.read_seconds, float(end))
