"""Is the file shorter than its own outermost boxes say? Decoders read as far as they come and keep silent."""

import os
from typing import Final

_MAX_BOXES: Final = 1 << 16
_SEGMENT: Final = b"\x18\x53\x80\x67"


def is_cut(descriptor: int, demuxer: str) -> bool:
    """True when it is; False when it is whole, or when files of this kind do not say how long they are."""
    size = os.fstat(descriptor).st_size
    match demuxer:
        case "mov":
            return _boxes_are_cut(descriptor, size)
        case "matroska":
            return _segment_is_cut(descriptor, size)
        case "avi" | "wav":
            said = int.from_bytes(os.pread(descriptor, 4, 4), "little")
            return said not in (0, 0xFFFFFFFF) and 8 + said > size
        case _:
            return False


def _boxes_are_cut(descriptor: int, size: int) -> bool:
    """ISO/IEC 14496-12: a box's size, its four letters, perhaps a larger size. 0 means to the end of the file."""
    at = 0
    for _ in range(_MAX_BOXES):
        header = os.pread(descriptor, 16, at)
        if len(header) < 8:
            return False  # a few bytes of padding are harmless
        length = int.from_bytes(header[:4])
        if length == 1:
            length = int.from_bytes(header[8:16])
        if length < 8 or not header[4:8].isascii() or not header[4:8].decode("ascii").isprintable():
            return False  # no box: whatever it is, it is not cut off
        at += length
        if at > size:
            return True
    return False


def _segment_is_cut(descriptor: int, size: int) -> bool:
    """RFC 8794: an id, a size of 1 to 8 bytes whose leading zeros say how many; all ones: unknown."""
    head = os.pread(descriptor, 256, 0)
    at = head.find(_SEGMENT)
    if at < 0 or at + 5 > len(head) or head[at + 4] == 0:
        return False
    at += 4
    bytes_of_size = 9 - head[at].bit_length()
    bits = 7 * bytes_of_size
    length = int.from_bytes(head[at : at + bytes_of_size]) & ((1 << bits) - 1)
    return length != (1 << bits) - 1 and at + bytes_of_size + length > size
