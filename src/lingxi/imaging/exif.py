"""What EXIF says about how a photo was made (CIPA DC-008): each field for itself, so that damage costs a field and no more."""

import math
import mmap
import re
import struct
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

from lingxi.imaging.tiff import Directory, Reader

Content = bytes | mmap.mmap
T = TypeVar("T")

_PREFIX: Final = b"Exif\x00\x00"
_MAX_TEXT: Final = 300
_EXIF, _GPS = 34665, 34853
_DAMAGE: Final = (EOFError, ValueError, OverflowError, ZeroDivisionError, struct.error, IndexError)
_LOCAL: Final = re.compile(r"(\d{4})[:-](\d\d)[:-](\d\d)[ T](\d\d:\d\d:\d\d)", re.ASCII)


class _Unknown(Exception):
    """The field says that it does not know."""


class Exif:
    """Fields of one EXIF structure. `damaged` names those that were there and could not be read."""

    def __init__(self, exif: Content) -> None:
        self.damaged: list[str] = []
        if exif[: len(_PREFIX)] == _PREFIX:
            exif = exif[len(_PREFIX) :]
        self._reader: Reader | None = None
        self._main, self._exif, self._gps = Directory(), Directory(), Directory()
        try:
            self._reader = reader = Reader(exif)
            self._main = reader.first_entries()
        except _DAMAGE:
            self.damaged.append("exif")
            return
        self._exif = self._sub_directory("exif", _EXIF)
        self._gps = self._sub_directory("gps", _GPS)

    def camera(self) -> dict[str, Any]:
        """Camera, lens and exposure; only what is there."""
        texts = {"make": (self._main, 271), "model": (self._main, 272), "software": (self._main, 305)}
        texts |= {"lens_make": (self._exif, 42035), "lens": (self._exif, 42036)}
        numbers = {"exposure_seconds": 33434, "aperture": 33437, "focal_length_mm": 37386}
        found: dict[str, Any] = {}
        for name, (directory, tag) in texts.items():
            found[name] = self._field(name, directory, tag, self._text)
        for name, tag in numbers.items():
            found[name] = self._field(name, self._exif, tag, self._positive)
        found["exposure_bias"] = self._field("exposure_bias", self._exif, 37380, self._signed)
        found["iso"] = self._field("iso", self._exif, 34855, self._whole)
        found["focal_length_35mm"] = self._field("focal_length_35mm", self._exif, 41989, self._whole)
        flash = self._field("flash_fired", self._exif, 37385, self._number)
        found["flash_fired"] = None if flash is None else bool(flash & 1)
        return {name: value for name, value in found.items() if value is not None}

    def captured_local(self) -> str | None:
        """The camera's clock, `2024-05-01T12:30:00`, with no offset."""

        def time_of(directory: Directory, tag: int) -> str:
            parts = _LOCAL.fullmatch(self._text(directory, tag))
            if parts is None:
                raise ValueError("no time")
            date_and_time = f"{parts[1]}-{parts[2]}-{parts[3]}T{parts[4]}"
            datetime.fromisoformat(date_and_time)  # the 31st of February is a ValueError
            return date_and_time

        return self._field("captured_local", self._exif, 36867, time_of)

    def texts(self) -> dict[str, Any]:
        """Who made it, whose it is."""
        found = {
            "creator": self._field("artist", self._main, 315, self._text),
            "copyright": self._field("copyright", self._main, 33432, self._text),
            "caption": self._field("description", self._main, 270, self._text),
        }
        return {name: value for name, value in found.items() if value}

    def has_position(self) -> bool:
        """Are there coordinates, also such as cannot be read?"""
        return 2 in self._gps and 4 in self._gps

    def position(self) -> dict[str, float] | None:
        """Latitude and longitude in degrees, north and east positive, and the altitude in metres where there is one."""
        latitude = self._field("latitude", self._gps, 2, self._angle)
        longitude = self._field("longitude", self._gps, 4, self._angle)
        if latitude is None or longitude is None:
            return None
        found = {
            "latitude": latitude * self._sign(1, "S"),
            "longitude": longitude * self._sign(3, "W"),
        }
        if (altitude := self._field("altitude", self._gps, 6, self._not_negative)) is not None:
            below = self._field("altitude", self._gps, 5, self._number)
            found["altitude_meters"] = -altitude if below == 1 else altitude
        return found

    # ── one field ────────────────────────────────────────────────────────────────────────────────────────
    def _field(
        self, name: str, directory: Directory, tag: int, read: Callable[[Directory, int], T]
    ) -> T | None:
        if tag not in directory:
            return None
        try:
            return read(directory, tag)
        except _Unknown:
            return None
        except _DAMAGE:
            if name not in self.damaged:
                self.damaged.append(name)
            return None

    def _sub_directory(self, name: str, tag: int) -> Directory:
        def read(directory: Directory, pointer: int) -> Directory:
            assert self._reader is not None
            at = self._reader.values(directory, pointer)
            return self._reader.entries(at[0])

        return self._field(name, self._main, tag, read) or Directory()

    def _text(self, directory: Directory, tag: int) -> str:
        assert self._reader is not None
        data = bytes(value & 255 for value in self._reader.values(directory, tag, _MAX_TEXT))
        return clean_text(data)

    def _number(self, directory: Directory, tag: int) -> int:
        assert self._reader is not None
        return self._reader.values(directory, tag)[0]

    def _whole(self, directory: Directory, tag: int) -> int:
        number = self._number(directory, tag)
        if number == 0:
            raise _Unknown
        if not 0 < number < 10_000_000:
            raise ValueError("out of range")
        return number

    def _positive(self, directory: Directory, tag: int) -> float:
        return _checked(self._rationals(directory, tag, "II")[0], 0, exclusive=True)

    def _not_negative(self, directory: Directory, tag: int) -> float:
        return _checked(self._rationals(directory, tag, "II")[0], 0)

    def _signed(self, directory: Directory, tag: int) -> float:
        return _checked(self._rationals(directory, tag, "ii")[0], -1e6)

    def _angle(self, directory: Directory, tag: int) -> float:
        degrees, minutes, seconds = self._rationals(directory, tag, "II", 3)
        angle = degrees + minutes / 60 + seconds / 3600
        if not 0 <= angle <= 180:
            raise ValueError("no angle")
        return round(angle, 7)

    def _sign(self, tag: int, negative: str) -> int:
        return -1 if self._field("gps_ref", self._gps, tag, self._text) == negative else 1

    def _rationals(self, directory: Directory, tag: int, form: str, count: int = 1) -> list[float]:
        """Fractions, as numerator and denominator of four bytes each. What has a zero below is no number."""
        assert self._reader is not None
        entry, content = directory[tag], self._reader.content
        if entry.end - entry.start < 8 * count or entry.start + 8 * count > len(content):
            raise EOFError
        data = content[entry.start : entry.start + 8 * count]
        parts = struct.unpack(self._reader.order + form * count, data)
        return [parts[at] / parts[at + 1] for at in range(0, 2 * count, 2)]


def clean_text(data: bytes) -> str:
    """Text up to its NUL: UTF-8, else Latin-1; no control characters, no surrounding spaces, of bounded length."""
    data = data.partition(b"\0")[0]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return "".join(one for one in text if one.isprintable()).strip()[:_MAX_TEXT]


def _checked(value: float, least: float, *, exclusive: bool = False) -> float:
    if not math.isfinite(value) or value < least or (exclusive and value == least) or value > 1e6:
        raise ValueError("out of range")
    return round(value, 7)
