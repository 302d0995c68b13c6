"""Frames as they are shown: within a box, square pixels, upright, SDR, eight bits, 4:2:0. One filter graph does it all, in
C and with threads; it is made anew when the stream changes its size or format."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import av
import av.error
import av.filter

from lingxi.video import turn
from lingxi.video.colours import needs_table
from lingxi.video.errors import VideoError

_UNSPECIFIED: Final = 2
_DOLBY = "DOVI_METADATA"


def fit(width: int, height: int, long_edge: int, short_edge: int) -> tuple[int, int]:
    """The size within the box, turned as the picture is: same shape, never enlarged, even."""
    share = min(1.0, long_edge / max(width, height), short_edge / min(width, height))
    return max(2, int(width * share + 0.5) & ~1), max(2, int(height * share + 0.5) & ~1)


class Pictures:
    """The frames of one stream on their way into a box. `size` is known after the first."""

    def __init__(self, stream: Any, long_edge: int, short_edge: int, *, jpeg: bool = False, threads: int = 1):
        self._stream = stream
        self._box = (long_edge, short_edge)
        self._jpeg = jpeg
        self._threads = threads
        self._graph: Any = None
        self._made_for: tuple[Any, ...] | None = None
        self._interlaced = False
        self.size: tuple[int, int] | None = None
        self.tone_mapped = False
        self.rotation = 0

    def push(self, frame: Any) -> Iterator[Any]:
        """What comes out when this goes in."""
        self._interlaced |= bool(frame.interlaced_frame)  # from the first such picture on
        made_for = (
            *(frame.width, frame.height, frame.format.name, frame.color_trc, frame.colorspace),
            self._interlaced,
        )
        if made_for != self._made_for:
            yield from self.flush()
            self._graph = self._build(frame)
            self._made_for = made_for
        self._graph.vpush(frame)
        yield from self._pull()

    def flush(self) -> Iterator[Any]:
        """The rest."""
        if self._graph is not None:
            self._graph.vpush(None)
            yield from self._pull()
            self._graph = self._made_for = None

    def _pull(self) -> Iterator[Any]:
        while True:
            try:
                yield self._graph.vpull()
            except (av.error.BlockingIOError, av.error.EOFError):
                return

    def _build(self, frame: Any) -> Any:
        graph = av.filter.Graph()
        graph.threads = self._threads
        nodes = [graph.add("buffer", _buffer(frame))]
        for step in self._steps(frame):
            name, _, arguments = step.partition("=")
            nodes.append(graph.add(name, arguments or None))
        nodes.append(graph.add("buffersink"))
        graph.link_nodes(*nodes).configure()
        return graph

    def _steps(self, frame: Any) -> list[str]:
        matrix = turn.matrix_of(frame)
        stored = self._stored_size(frame, matrix)
        self.rotation = turn.clockwise_degrees(matrix)
        steps = ["yadif=deint=interlaced"] if self._interlaced else []
        transfer, primaries = _colours(frame)
        if frame.side_data.get(_DOLBY) is not None and transfer == _UNSPECIFIED:
            raise VideoError(
                "hdr_unsupported", "The video is Dolby Vision without a layer that others can show."
            )
        size = f"scale=w={stored[0]}:h={stored[1]}:flags=bicubic"
        if needs_table(transfer, primaries):
            self.tone_mapped = True
            steps += [f"{size}:in_color_matrix=bt2020", "format=gbrp12le", _table(transfer)]
            steps += [
                "setparams=color_primaries=bt709:color_trc=bt709:colorspace=gbr:range=pc",
                self._encoding(),
            ]
        else:
            steps += [size + self._encoding_of(frame)]
        steps += ["format=yuvj420p" if self._jpeg else "format=yuv420p"]
        return [*steps, *turn.steps(matrix), "setsar=1", "sidedata=mode=delete"]

    def _encoding(self) -> str:
        return f"scale=flags=bicubic{_JPEG if self._jpeg else _VIDEO}"

    def _encoding_of(self, frame: Any) -> str:
        """The matrix stays as it is (players read it), but for JPEG, which has one, and for what has none."""
        if self._jpeg:
            assumed = ":in_color_matrix=bt709" if _is_unspecified_hd(frame) else ""
            return assumed + _JPEG
        if _is_rgb(frame):
            return _VIDEO
        return ":out_range=tv"

    def _stored_size(self, frame: Any, matrix: Any) -> tuple[int, int]:
        """The size to scale to before it is turned."""
        aspect = self._stream.sample_aspect_ratio or 1
        width, height = frame.width, frame.height
        if aspect > 1:
            width = round(width * aspect)
        elif 0 < aspect < 1:
            height = round(height / aspect)
        swapped = turn.swaps_axes(matrix)
        if self.size is None:
            shown = (height, width) if swapped else (width, height)
            self.size = fit(*shown, *self._box)
        return (self.size[1], self.size[0]) if swapped else self.size


_VIDEO: Final = ":out_color_matrix=bt709:out_range=tv"
_JPEG: Final = ":out_color_matrix=smpte170m:out_range=pc"


def _buffer(frame: Any) -> str:
    base = frame.time_base
    space = f":colorspace={frame.colorspace}" if not _is_rgb(frame) else ""
    colour_range = {1: ":range=tv", 2: ":range=pc"}.get(frame.color_range, "")
    return (
        f"video_size={frame.width}x{frame.height}:pix_fmt={frame.format.name}"
        f":time_base={base.numerator}/{base.denominator}{space}{colour_range}"
    )


def _colours(frame: Any) -> tuple[int, int]:
    return int(frame.color_trc), int(frame.color_primaries)


def _is_rgb(frame: Any) -> bool:
    return bool(frame.format.is_rgb)


def _is_unspecified_hd(frame: Any) -> bool:
    return int(frame.colorspace) == _UNSPECIFIED and max(frame.width, frame.height) >= 1280


def _table(transfer: int) -> str:
    """The step that looks colours up. The filter knows the format by the name's end, and reads it when it is made."""
    from lingxi.video import tone  # only for the few that need it

    folder = Path(tempfile.gettempdir())
    path = folder / f"tone-{os.getpid()}-{transfer}.cube"
    if not path.exists():
        tone.write_table(path, transfer)
    return f"lut3d=file={path}:interp=tetrahedral"
