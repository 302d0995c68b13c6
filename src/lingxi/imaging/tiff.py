"""The directories of a TIFF file, as far as is needed to tell a picture from a camera's RAW file, and a whole file
from a cut one. A RAW file opens as a TIFF: as its small preview, or as a grey mosaic."""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

Content = bytes | mmap.mmap

_MAX_DIRECTORIES: Final = 32
_MAX_STRIPS: Final = 1 << 18

_COMPRESSION, _PHOTOMETRIC, _MAKE = 259, 262, 271
_STRIP_OFFSETS, _STRIP_SIZES, _SUB_DIRECTORIES = 273, 279, 330
_TILE_OFFSETS, _TILE_SIZES, _DNG_VERSION = 324, 325, 50706

_RAW_PHOTOMETRICS: Final = {32803, 34892}  # colour filter array, linear raw
_RAW_COMPRESSIONS: Final = {
    32767: "Sony",
    32769: "packed RAW",
    34713: "Nikon",
    65000: "Kodak",
    65535: "Pentax",
}
# Formats of struct by field type, and the sizes of types that are no whole numbers.
_WHOLE: Final = {
    1: "B",
    2: "B",  # text
    3: "H",
    4: "I",
    6: "b",
    7: "B",
    8: "h",
    9: "i",
    13: "I",
    16: "Q",
    17: "q",
    18: "Q",
}
_OTHER_BYTES: Final = {5: 8, 10: 8, 11: 4, 12: 8}


@dataclass(frozen=True, slots=True)
class _Entry:
    format: str  # of struct, for one value; empty for types without whole numbers
    count: int
    start: int  # where the values lie
    end: int


class Directory(dict[int, _Entry]):
    """Entries by tag, of one directory."""


class Reader:
    """Entries of a TIFF structure by their offsets; every method raises EOFError where the content is cut."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.order = "<" if content[:1] == b"I" else ">"
        self.big = self.number(2, "H") == 43
        self.offset_format = "Q" if self.big else "I"

    def number(self, at: int, kind: str) -> int:
        size = struct.calcsize(kind)
        if at + size > len(self.content):
            raise EOFError
        value: int = struct.unpack(self.order + kind, self.content[at : at + size])[0]
        return value

    def directory(self, at: int) -> tuple[Directory, int]:
        """The entries at `at`, and where the next directory is (0: none)."""
        counted, entry_size = (8, 20) if self.big else (2, 12)
        count = self.number(at, "Q" if self.big else "H")
        following = at + counted + count * entry_size
        return self.entries(at), self.number(following, self.offset_format)

    def entries(self, at: int) -> Directory:
        """The entries at `at`."""
        counted, entry_size = (8, 20) if self.big else (2, 12)
        count = self.number(at, "Q" if self.big else "H")
        offset_size = struct.calcsize(self.offset_format)
        found = Directory()
        for index in range(min(count, 4096)):
            start = at + counted + index * entry_size
            kind = self.number(start + 2, "H")
            form = _WHOLE.get(kind, "")
            values = self.number(start + 4, self.offset_format)
            size = values * (struct.calcsize(form) if form else _OTHER_BYTES.get(kind, 0))
            inline = start + 4 + offset_size
            place = inline if size <= offset_size else self.number(inline, self.offset_format)
            found[self.number(start, "H")] = _Entry(form, values, place, place + size)
        return found

    def values(self, directory: Directory, tag: int, limit: int = _MAX_DIRECTORIES) -> list[int]:
        """The first whole numbers of a tag; none when it is absent. EOFError when the file is cut there."""
        entry = directory.get(tag)
        if entry is None or not entry.format:
            return []
        count = min(entry.count, limit)
        end = entry.start + struct.calcsize(entry.format) * count
        if end > len(self.content):
            raise EOFError
        return list(struct.unpack(f"{self.order}{count}{entry.format}", self.content[entry.start : end]))

    def text(self, directory: Directory, tag: int, limit: int = 64) -> str:
        """The text of a tag up to its NUL, without surrounding spaces; empty when it is absent."""
        characters = bytes(self.values(directory, tag, limit)).partition(b"\0")[0]
        return characters.decode("ascii", "replace").strip()

    def first_entries(self) -> Directory:
        """The entries of the first directory."""
        return self.entries(self.number(8 if self.big else 4, self.offset_format))

    def directories(self) -> Iterator[Directory]:
        """Those of the chain and their sub-directories, each once and a bounded number."""
        waiting = [self.number(8 if self.big else 4, self.offset_format)]
        seen: set[int] = set()
        while waiting and len(seen) < _MAX_DIRECTORIES:
            at = waiting.pop()
            if at == 0 or at in seen:
                continue
            seen.add(at)
            directory, following = self.directory(at)
            waiting.append(following)
            waiting.extend(self.values(directory, _SUB_DIRECTORIES))
            yield directory


def raw_maker(content: Content) -> str | None:
    """Whose RAW file this TIFF is; None when it is a picture (or cut before one can tell)."""
    if content[8:10] == b"CR":
        return "Canon CR2"
    try:
        reader = Reader(content)
        for directory in reader.directories():
            if _DNG_VERSION in directory:
                return "DNG"
            if _RAW_PHOTOMETRICS.intersection(reader.values(directory, _PHOTOMETRIC)):
                return "colour filter mosaic"
            for compression in reader.values(directory, _COMPRESSION):
                if compression in _RAW_COMPRESSIONS:
                    return _RAW_COMPRESSIONS[compression]
    except EOFError:
        pass
    return None


def is_cut(content: Content) -> bool:
    """Does the first directory, or anything that it points to, lie past the end of the file?"""
    try:
        reader = Reader(content)
        first, _ = reader.directory(reader.number(8 if reader.big else 4, reader.offset_format))
        if any(entry.end > len(content) for entry in first.values()):
            return True
        for offsets, sizes in ((_STRIP_OFFSETS, _STRIP_SIZES), (_TILE_OFFSETS, _TILE_SIZES)):
            places = zip(
                reader.values(first, offsets, _MAX_STRIPS),
                reader.values(first, sizes, _MAX_STRIPS),
                strict=False,
            )
            if any(offset + size > len(content) for offset, size in places):
                return True
    except EOFError:
        return True
    return False
