"""The boxes of HEIC, HEIF and AVIF files (ISO/IEC 14496-12 and 23008-12), as far as is needed to tell a whole file
from a cut one: decoders fill the missing half with green and say nothing."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

Content = bytes | mmap.mmap

_MAX_BOXES: Final = 4096
_MAX_ITEMS: Final = 65_536
_AT_THE_TOP: Final = {b"ftyp", b"meta", b"mdat", b"moov", b"moof", b"free", b"skip", b"wide", b"uuid"}


@dataclass(frozen=True, slots=True)
class Box:
    """A box's four letters and where its payload lies; `end` may be past the end of the file when that was cut."""

    type: bytes
    start: int
    end: int


class MalformedBoxes(ValueError):
    """The boxes contradict themselves."""


@dataclass(slots=True)
class Layout:
    """What the boxes say. `needed_bytes` is how long the file must be to hold all that they point to."""

    needed_bytes: int = 0
    has_meta: bool = False
    has_movie: bool = False
    items: dict[int, bytes] = field(default_factory=dict)  # their types by their numbers
    extents: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # an item's number, and from where to where
    colours: set[tuple[int, int]] = field(default_factory=set)  # primaries and transfer, as numbers of H.273

    @property
    def item_types(self) -> set[bytes]:
        return set(self.items.values())


def brands(content: Content) -> tuple[bytes, set[bytes]]:
    """The major brand and the compatible ones of the `ftyp` box that the file begins with."""
    size = int.from_bytes(content[:4])
    listed = content[16 : max(16, min(size, 16 + 4 * 64))]
    return content[8:12], {listed[at : at + 4] for at in range(0, len(listed) - 3, 4)}


def layout(content: Content) -> Layout:
    """Walk the boxes at the top and those of `meta`; MalformedBoxes when that is not possible. Bytes behind the picture that
    are no boxes do not count."""
    found = Layout()
    try:
        for box in _boxes(content, 0, len(content)):
            if found.has_meta and box.end > len(content) and box.type not in _AT_THE_TOP:
                break
            found.needed_bytes = max(found.needed_bytes, box.end)
            found.has_movie |= box.type == b"moov"
            if box.type == b"meta" and box.end <= len(content):
                _read_meta(content, box, found)
                found.has_meta = True
    except MalformedBoxes:
        if not found.has_meta:
            raise
    return found


def _boxes(content: Content, start: int, end: int) -> Iterator[Box]:
    for _ in range(_MAX_BOXES):
        if end - start < 8:
            return  # a few bytes of padding are harmless
        size, kind = int.from_bytes(content[start : start + 4]), content[start + 4 : start + 8]
        header = 8
        if size == 1:
            size, header = int.from_bytes(content[start + 8 : start + 16]), 16
        elif size == 0:
            size = end - start  # to the end
        if size < header:
            raise MalformedBoxes(f"a box of {size} bytes")
        yield Box(kind, start + header, start + size)
        start += size
    raise MalformedBoxes("too many boxes")


def _read_meta(content: Content, meta: Box, found: Layout) -> None:
    data_box: Box | None = None
    locations: Box | None = None
    for box in _boxes(content, meta.start + 4, meta.end):
        if box.end > meta.end:
            raise MalformedBoxes("a box that is larger than its parent")
        if box.type == b"iinf":
            found.items |= _item_types(content, box)
        elif box.type == b"iloc":
            locations = box
        elif box.type == b"idat":
            data_box = box
        elif box.type == b"iprp":
            found.colours = _colours(content, box)
    if locations is not None:
        _read_locations(_Fields(content, locations), found, data_box)


def _colours(content: Content, properties: Box) -> set[tuple[int, int]]:
    """What the colour boxes say that have no profile, whichever item each belongs to."""
    found = set()
    for container in _boxes(content, properties.start, properties.end):
        if container.type != b"ipco":
            continue
        for box in _boxes(content, container.start, container.end):
            if box.type == b"colr" and content[box.start : box.start + 4] == b"nclx":
                fields = _Fields(content, Box(b"nclx", box.start + 4, box.end))
                found.add((fields.number(2), fields.number(2)))
    return found


def _item_types(content: Content, box: Box) -> dict[int, bytes]:
    counted = 2 if content[box.start] == 0 else 4
    types: dict[int, bytes] = {}
    for entry in _boxes(content, box.start + 4 + counted, box.end):
        version = content[entry.start]
        id_bytes = 4 if version >= 3 else 2
        at = entry.start + 4 + id_bytes + 2
        if entry.type == b"infe" and version >= 2:
            number = int.from_bytes(content[entry.start + 4 : entry.start + 4 + id_bytes])
            types[number] = content[at : at + 4]
    return types


def _read_locations(fields: "_Fields", found: Layout, data_box: Box | None) -> None:
    version = fields.number(1)
    fields.number(3)
    sizes = fields.number(2)
    offset_bytes, length_bytes, base_bytes = sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15
    index_bytes = sizes & 15 if version in (1, 2) else 0
    items = fields.number(2 if version < 2 else 4)
    if items > _MAX_ITEMS:
        raise MalformedBoxes("too many items")
    for _ in range(items):
        item = fields.number(2 if version < 2 else 4)
        method = fields.number(2) & 15 if version in (1, 2) else 0
        reference = fields.number(2)
        base = fields.number(base_bytes)
        for _ in range(fields.number(2)):
            fields.number(index_bytes)
            start = base + fields.number(offset_bytes)
            end = start + fields.number(length_bytes)
            if method == 0 and reference == 0:
                found.needed_bytes = max(found.needed_bytes, end)
                found.extents.append((item, start, end))
            elif method == 1 and data_box is not None and data_box.start + end > data_box.end:
                raise MalformedBoxes("an item that is larger than its data")


class _Fields:
    """Big-endian numbers, one after the other, within a box."""

    def __init__(self, content: Content, box: Box) -> None:
        self._content = content
        self._at = box.start
        self._end = box.end

    def number(self, size: int) -> int:
        if self._at + size > self._end:
            raise MalformedBoxes("a box that ends within a field")
        value = int.from_bytes(self._content[self._at : self._at + size])
        self._at += size
        return value
