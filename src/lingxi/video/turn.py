"""How a picture has to be turned: the display matrix (ISO/IEC 14496-12, 8.3.2) as steps of a filter graph."""

import struct
from typing import Any, Final

_QUARTERS: Final = {  # signs of b and c where the axes are exchanged
    (1, -1): ("transpose=clock",),
    (-1, 1): ("transpose=cclock",),
    (1, 1): ("transpose=cclock_flip",),
    (-1, -1): ("transpose=clock_flip",),
}


def matrix_of(frame: Any) -> tuple[int, int, int, int] | None:
    """a, b, c, d of a frame's display matrix: (x, y) is shown at (a x + c y, b x + d y). None: as it is stored."""
    try:
        data = frame.side_data.get("DISPLAYMATRIX")
    except (KeyError, ValueError):
        return None
    if data is None:
        return None
    a, b, _, c, d = struct.unpack("=5i", bytes(data)[:20])
    return a, b, c, d


def swaps_axes(matrix: tuple[int, int, int, int] | None) -> bool:
    """Are width and height exchanged?"""
    return matrix is not None and abs(matrix[1]) > abs(matrix[0])


def steps(matrix: tuple[int, int, int, int] | None) -> tuple[str, ...]:
    """Filters that make it upright; angles between the quarters are taken as the nearest one."""
    if matrix is None:
        return ()
    a, b, c, d = matrix
    if swaps_axes(matrix):
        return _QUARTERS[(1 if b > 0 else -1, 1 if c > 0 else -1)]
    return (*(("hflip",) if a < 0 else ()), *(("vflip",) if d < 0 else ()))


def clockwise_degrees(matrix: tuple[int, int, int, int] | None) -> int:
    """By how much it is turned when it is shown: 0, 90, 180 or 270; a mirrored one as if it were not."""
    if matrix is None:
        return 0
    a, b, _, d = matrix
    if swaps_axes(matrix):
        return 90 if b > 0 else 270
    return 180 if a < 0 and d < 0 else 0
