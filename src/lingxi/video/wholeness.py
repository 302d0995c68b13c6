"""Is the file shorter than its own outermost boxes say? Decoders read as far as they come and keep silent."""

import os
from typing import Final

_MAX_BOXES: Final = 1 << 16
_SEGMENT: Final = b"\x18\x53\x80\x67"
_PACK, _PACK_END = b"\0\0\1\xba", 0xB9
_TAIL_BYTES: Final = 1 << 18  # packs are much smaller
_FLV_TAGS: Final = (8, 9, 18)


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
        case "mpegts":
            packet = 188 if os.pread(descriptor, 1, 188) == b"\x47" else 192
            return size % packet > 0
        case "mpeg":
            return _pack_is_cut(os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)))
        case "flv":
            return _tag_is_cut(descriptor, size)
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


def _pack_is_cut(tail: bytes) -> bool:
    """ISO/IEC 13818-1, 2.5: a pack's header of 14 bytes and some (12 in MPEG-1), then packets that say how long they are."""
    at = tail.rfind(_PACK)
    if at < 0:
        return False
    if at + 14 > len(tail):
        return True
    at += 14 + (tail[at + 13] & 7) if tail[at + 4] >> 6 == 1 else 12
    while tail[at : at + 3] == _PACK[:3] and at + 6 <= len(tail) and tail[at + 3] != _PACK_END:
        at += 6 + int.from_bytes(tail[at + 4 : at + 6])
    return at > len(tail)


def _tag_is_cut(descriptor: int, size: int) -> bool:
    """Each tag, 11 bytes and what it holds, is followed by its size: so is the last one."""
    before = int.from_bytes(os.pread(descriptor, 4, size - 4))
    tag = os.pread(descriptor, 4, max(0, size - 4 - before))
    held = int.from_bytes(tag[1:])
    return not tag or tag[0] not in _FLV_TAGS or before not in (held, held + 11)
