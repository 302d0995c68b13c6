"""The bytes of a ZIP file, made piece by piece as its files go by.

Entries are stored, not compressed: photos and videos are compressed already. Every byte follows from the entries' names, sizes,
times and contents, so that the same archive can be written again to see whether one was changed. ZIP64 fields appear only
where a number needs them. (PKWARE's APPNOTE 6.3.10; Info-ZIP's extra field `UT` for the time in seconds.)

    zipped = ZipBytes()
    zipped.header(entry, crc)  → before the content; crc None where it is told only after the content
    zipped.footer(entry, crc)  → after the content; empty unless crc was None before
    zipped.directory()         → the end of the file
"""

import hashlib
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

UTF8_FLAG: Final = 0x0800
DESCRIPTOR_FLAG: Final = 0x0008
FULL_32: Final = 0xFFFF_FFFF
FULL_16: Final = 0xFFFF
VERSION, VERSION_ZIP64 = 20, 45
_UNIX: Final = 3 << 8
_MODE: Final = 0o100644 << 16  # a file that all may read
_FIRST_DOS, _LAST_DOS = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
_RECORDS_AT_ONCE: Final = 1_000
_INT32: Final = range(-(1 << 31), 1 << 31)

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<4sHHHHHHIIIHHHHHII")
_DESCRIPTOR: Final = struct.Struct("<4sIII")
_DESCRIPTOR_64: Final = struct.Struct("<4sIQQ")
_END: Final = struct.Struct("<4sHHHHIIH")
_END_64: Final = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR_64: Final = struct.Struct("<4sIQI")


DESCRIBED_ABOVE_BYTES: Final = (
    16 << 20
)  # a part of the format: another value needs another version of the manifest


class Entry(NamedTuple):
    """A file of the archive. `modified_at` is in seconds since 1970."""

    name: str
    size_bytes: int
    modified_at: int


class Digest:
    """CRC-32 and SHA-256 of a content that goes by."""

    def __init__(self) -> None:
        self.crc = 0
        self.size_bytes = 0
        self._sha256 = hashlib.sha256()

    def update(self, chunk: bytes) -> None:
        self.crc = zlib.crc32(chunk, self.crc)
        self.size_bytes += len(chunk)
        self._sha256.update(chunk)

    @property
    def sha256(self) -> bytes:
        return self._sha256.digest()


def described(entry: Entry) -> bool:
    """Does its CRC follow the content? So large ones are not held in memory until it is known."""
    return entry.size_bytes > DESCRIBED_ABOVE_BYTES


def header_size(entry: Entry) -> int:
    """Length of what `ZipBytes.header` makes."""
    zip64 = 20 if entry.size_bytes >= FULL_32 else 0
    return _LOCAL.size + len(entry.name.encode()) + len(_time_extra(entry.modified_at)) + zip64


@dataclass(slots=True)
class _Open:
    """The entry whose content is going by."""

    entry: Entry
    offset: int
    described: bool  # its CRC follows the content


class ZipBytes:
    """One archive; `offset` is the number of bytes so far, contents included. Entries come one after the other."""

    def __init__(self) -> None:
        self.offset = 0
        self._entries = 0
        self._central: list[bytes] = []  # about 100 bytes an entry
        self._open: _Open | None = None

    def header(self, entry: Entry, crc: int | None) -> bytes:
        """What stands before the content."""
        assert self._open is None, "an entry is open"
        described = crc is None
        self._open = _Open(entry, self.offset, described)
        name, big = entry.name.encode(), entry.size_bytes >= FULL_32
        size = 0 if described else entry.size_bytes
        extra = _time_extra(entry.modified_at) + (struct.pack("<HHQQ", 1, 16, size, size) if big else b"")
        shown = FULL_32 if big else size
        dos_time, dos_date = _dos(entry.modified_at)
        head = _LOCAL.pack(
            b"PK\3\4",
            VERSION_ZIP64 if big else VERSION,
            UTF8_FLAG | (DESCRIPTOR_FLAG if described else 0),
            0,
            dos_time,
            dos_date,
            crc or 0,
            shown,
            shown,
            len(name),
            len(extra),
        )
        made = head + name + extra
        self.offset += len(made)
        return made

    def footer(self, entry: Entry, crc: int) -> bytes:
        """What stands after the content, and the entry is remembered for the directory."""
        opened, self._open = self._open, None
        assert opened is not None and opened.entry == entry, "another entry is open"
        self.offset += entry.size_bytes
        made = b""
        if opened.described:
            form = _DESCRIPTOR_64 if entry.size_bytes >= FULL_32 else _DESCRIPTOR
            made = form.pack(b"PK\7\x08", crc, entry.size_bytes, entry.size_bytes)
        self.offset += len(made)
        self._entries += 1
        self._central.append(_central(opened, crc))
        return made

    def directory(self) -> Iterator[bytes]:
        """The central directory and the end of the archive."""
        start, size = self.offset, sum(map(len, self._central))
        for first in range(0, self._entries, _RECORDS_AT_ONCE):
            yield b"".join(self._central[first : first + _RECORDS_AT_ONCE])
        if self._entries >= FULL_16 or start >= FULL_32 or size >= FULL_32:
            both = (self._entries, self._entries)
            yield _END_64.pack(b"PK\6\6", 44, _UNIX | VERSION_ZIP64, VERSION_ZIP64, 0, 0, *both, size, start)
            yield _LOCATOR_64.pack(b"PK\6\7", 0, start + size, 1)
        entries = min(self._entries, FULL_16)
        yield _END.pack(b"PK\5\6", 0, 0, entries, entries, min(size, FULL_32), min(start, FULL_32), 0)


def _central(opened: _Open, crc: int) -> bytes:
    entry, name = opened.entry, opened.entry.name.encode()
    wide = [entry.size_bytes] * 2 if entry.size_bytes >= FULL_32 else []
    wide += [opened.offset] if opened.offset >= FULL_32 else []
    extra = _time_extra(entry.modified_at)
    if wide:
        extra += struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide)
    version = VERSION_ZIP64 if wide else VERSION
    dos_time, dos_date = _dos(entry.modified_at)
    size = min(entry.size_bytes, FULL_32)
    return (
        _CENTRAL.pack(
            b"PK\1\2",
            _UNIX | version,
            version,
            UTF8_FLAG | (DESCRIPTOR_FLAG if opened.described else 0),
            0,
            dos_time,
            dos_date,
            crc,
            size,
            size,
            len(name),
            len(extra),
            0,
            0,
            0,
            _MODE,
            min(opened.offset, FULL_32),
        )
        + name
        + extra
    )


@lru_cache
def _time_extra(seconds: int) -> bytes:
    """The time to the second, for all but the oldest programs; none for one that does not fit."""
    return struct.pack("<2sHBi", b"UT", 5, 1, seconds) if seconds in _INT32 else b""


@lru_cache
def _dos(seconds: int) -> tuple[int, int]:
    """Time and date as MS-DOS has them, in UTC: to two seconds, from 1980 to 2107."""
    try:
        moment = tuple(time.gmtime(seconds)[:6])
    except (OverflowError, ValueError, OSError):  # beyond what the C library's calendar knows
        moment = _LAST_DOS if seconds > 0 else _FIRST_DOS
    year, month, day, hour, minute, second = min(max(moment, _FIRST_DOS), _LAST_DOS)
    return hour << 11 | minute << 5 | min(second, 59) // 2, (year - 1980) << 9 | month << 5 | day
