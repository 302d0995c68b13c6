"""Sound in step with the picture: from the source's beginning on, gaps filled with silence and overlaps cut by timestamps,
at most two channels."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

import av.error
import av.filter

_RATES: Final = (44_100, 48_000)
_GAP_SECONDS: Final = 0.02  # is mended; what is smaller cannot be heard


class Sound:
    """The frames of one stream on their way to AAC. `start` is the source's beginning, in seconds."""

    def __init__(self, stream: Any, start: Fraction) -> None:
        self._start = start
        self.rate = stream.rate if stream.rate in _RATES else 48_000
        self.channels = min(2, int(stream.channels)) or 2
        self.layout = "mono" if self.channels == 1 else "stereo"
        self._next = 0  # where what has come out ends, in samples
        self._graph: Any = None
        self._made_for: tuple[Any, ...] | None = None

    def push(self, frame: Any) -> Iterator[Any]:
        """What comes out when this goes in."""
        made_for = (frame.sample_rate, frame.format.name, frame.layout.name)
        if made_for != self._made_for:
            yield from self.flush()
            self._graph = self._build(frame)
            self._made_for = made_for
        if frame.pts is not None:
            frame.pts -= round(self._start / frame.time_base)
        self._graph.push(frame)
        yield from self._pull()

    def flush(self) -> Iterator[Any]:
        """The rest."""
        if self._graph is not None:
            self._graph.push(None)
            yield from self._pull()
            self._graph = None

    def _pull(self) -> Iterator[Any]:
        while True:
            try:
                frame = self._graph.pull()
            except (av.error.BlockingIOError, av.error.EOFError):
                return
            if frame.pts is not None:
                self._next = frame.pts + frame.samples
            yield frame

    def _build(self, frame: Any) -> Any:
        """One that goes on where the one before has ended: silence is put there, or what overlaps is cut."""
        graph = av.filter.Graph()
        nodes = [
            graph.add_abuffer(
                sample_rate=frame.sample_rate,
                format=frame.format,
                layout=frame.layout,
                time_base=frame.time_base,
            ),
            graph.add(
                "aresample", f"{self.rate}:async=1:min_hard_comp={_GAP_SECONDS}:first_pts={self._next}"
            ),
            graph.add("aformat", f"sample_fmts=fltp:channel_layouts={self.layout}"),
            graph.add("abuffersink"),
        ]
        graph.link_nodes(*nodes).configure()
        return graph
