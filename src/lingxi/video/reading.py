"""Packets and frames of a source, as far as they can be read, and how far that was."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

import av.error

from lingxi.video.moments import Moments
from lingxi.video.source import Source

_TOLERATED_SHARE: Final = 0.1  # of a stream's packets may be damaged
_SHORTFALL_SECONDS: Final = 0.5  # what may be missing at the end before we speak of it


class Reading:
    """One pass over a source. `read_seconds` is how far the picture was read, `all_seconds` anything; `damaged` counts packets
    that could not be."""

    def __init__(self, source: Source, streams: list[Any]) -> None:
        self._source = source
        self._streams = streams
        self._moments = Moments(source.kind.demuxer)
        self.packets = 0
        self.damaged = 0
        self.frames = 0
        self.read_seconds = 0.0
        self.all_seconds = 0.0
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
        if (said := self._source.stream_seconds) is not None:
            read = self.read_seconds
        else:
            said, read = self._source.seconds, self.all_seconds
        return said is not None and read < said - max(_SHORTFALL_SECONDS, 0.05 * said)

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
            except MemoryError:  # the limit of this process: not the file's damage
                raise
            except av.error.FFmpegError:
                self.broke_off = True
                return
            if packet.size:  # the empty ones mean the end; decoders are flushed by ourselves
                yield packet

    def _decode(self, stream: Any, packet: Any) -> Iterator[tuple[Any, Any]]:
        if stream.type == "video":
            self._moments.saw(packet)
        try:
            frames = stream.decode(packet)
        except av.error.EOFError:
            return
        except MemoryError:
            raise
        except av.error.FFmpegError:
            self.damaged += 1
            return
        for frame in frames:
            if frame.time_base is None:  # of those that come when a decoder is flushed
                frame.time_base = stream.time_base
            self._note(stream, frame)
            yield stream, frame

    def _note(self, stream: Any, frame: Any) -> None:
        if stream.type == "video":
            self._moments.correct(frame)
        end = 0.0
        if frame.pts is not None:
            length = frame.samples / Fraction(frame.sample_rate) if stream.type == "audio" else None
            length = length if length is not None else (frame.duration or 0) * frame.time_base
            end = float(frame.pts * frame.time_base + length - self._source.start)
        self.all_seconds = max(self.all_seconds, end)
        if stream.type == "video":
            self.frames += 1
            self.read_seconds = max(self.read_seconds, end)
