"""When a photo was taken, from its EXIF (the TIFF structure in JPEG, WebP, PNG, HEIC and AVIF, or the TIFF itself)."""

import mmap
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from lingxi.imaging.tiff import Directory, Reader

Content = bytes | mmap.mmap

_EXIF_DIRECTORY: Final = 34665
_TAKEN, _OFFSET, _FRACTION = 36867, 36881, 37521  # DateTimeOriginal, OffsetTimeOriginal, SubSecTimeOriginal
_PREFIX: Final = b"Exif\x00\x00"
_TIME: Final = re.compile(r"(\d{4})[:-](\d\d)[:-](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_OFFSET_TEXT: Final = re.compile(r"([+-])(\d\d):?(\d\d)")
_LONGEST_OFFSET: Final = timedelta(hours=14)


def captured_at(exif: Content) -> datetime | None:
    """The moment; None when the time or its offset is missing or makes no sense. Never raises on damaged EXIF."""
    if exif[: len(_PREFIX)] == _PREFIX:
        exif = exif[len(_PREFIX) :]
    try:
        reader = Reader(exif)
        for at in reader.values(reader.first_entries(), _EXIF_DIRECTORY):
            return _moment(reader, reader.entries(at))
    except (EOFError, ValueError, OverflowError):
        pass
    return None


def _moment(reader: Reader, directory: Directory) -> datetime | None:
    taken = _TIME.fullmatch(reader.text(directory, _TAKEN))
    offset = _OFFSET_TEXT.fullmatch(reader.text(directory, _OFFSET))
    if taken is None:
        return None
    zone = UTC if offset is None and reader.text(directory, _OFFSET) == "Z" else None
    if offset is not None:
        distance = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if distance > _LONGEST_OFFSET:
            return None
        zone = timezone(distance if offset[1] == "+" else -distance)
    if zone is None:
        return None
    fraction = re.match(r"\d{1,6}", reader.text(directory, _FRACTION))
    microseconds = int(fraction[0].ljust(6, "0")) if fraction else 0
    year, month, day, hour, minute, second = (int(part) for part in taken.groups())
    moment = datetime(year, month, day, hour, minute, second, microseconds, zone)
    return moment if moment.year > 1 else None
