"""The blocks of a GIF (version 89a)."""

import mmap
from collections.abc import Iterator
from typing import Final

Content = bytes | mmap.mmap

_MAX_BLOCKS: Final = 65_536
_EXTENSION, _IMAGE, _TRAILER = b"\x21", b"\x2c", b"\x3b"
_HEADER_BYTES: Final = 13  # before the global colour table


def end_of_blocks(content: Content) -> bytes:
    """What stands where the blocks end: the trailer, nothing, or what does not belong there."""
    for introducer, _ in _blocks(content):
        if introducer not in (_EXTENSION, _IMAGE):
            return introducer
    return _TRAILER  # there are more than anybody counts


def first_frame(content: Content) -> tuple[int, int, int, int] | None:
    """Where on the canvas the first frame lies: left, top, width, height; None when there is none."""
    for introducer, at in _blocks(content):
        if introducer == _IMAGE:
            left, top, width, height = (
                int.from_bytes(content[at + field : at + field + 2], "little") for field in (1, 3, 5, 7)
            )
            return left, top, width, height
    return None


def _blocks(content: Content) -> Iterator[tuple[bytes, int]]:
    """Each block's introducer and where it stands; the last one is none of a block."""
    at = _HEADER_BYTES + _color_table_bytes(content[10:11])
    for _ in range(_MAX_BLOCKS):
        introducer = content[at : at + 1]
        yield introducer, at
        if introducer == _EXTENSION:
            at = _after_sub_blocks(content, at + 2)
        elif introducer == _IMAGE:
            at = _after_sub_blocks(content, at + 11 + _color_table_bytes(content[at + 9 : at + 10]))
        else:
            return


def _color_table_bytes(flags: bytes) -> int:
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _after_sub_blocks(content: Content, at: int) -> int:
    while size := content[at : at + 1]:
        at += 1 + size[0]
        if size[0] == 0:
            return at
    return at
