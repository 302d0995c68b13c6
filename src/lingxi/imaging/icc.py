"""Colour profiles (ICC.1:2022), as far as is needed to tell which of them change nothing: a transform of every pixel for
an sRGB profile, which most cameras write, would be time for nothing."""

import struct
from typing import Final

# sRGB's primaries adapted to D50, as profiles give them, and how far apart two makers' roundings are.
_PRIMARIES: Final = {
    b"rXYZ": (0.4361, 0.2225, 0.0139),
    b"gXYZ": (0.3851, 0.7169, 0.0971),
    b"bXYZ": (0.1431, 0.0606, 0.7141),
}
_PRIMARY_TOLERANCE: Final = 0.004
_CURVE_POINTS: Final = (0.05, 0.2, 0.4, 0.6, 0.8)
_CURVE_TOLERANCE: Final = 0.004  # one step of 255
_MAX_TAGS: Final = 256


def color_space(profile: bytes) -> str:
    """What its numbers are: `RGB`, `GRAY`, `CMYK`, `Lab` …; empty when it is no profile."""
    return profile[16:20].decode("ascii", "replace").strip() if profile[36:40] == b"acsp" else ""


def is_srgb(profile: bytes) -> bool:
    """Does this profile say what a picture without one says: sRGB's primaries (or gray) and its curve?"""
    try:
        tags = _tags(profile)
        if any(tag.startswith((b"A2B", b"D2B")) for tag in tags):
            return False  # a table rules, whatever the primaries say
        match color_space(profile):
            case "RGB":
                primaries = all(_is_near(_xyz(tags[tag]), wanted) for tag, wanted in _PRIMARIES.items())
                return primaries and all(_is_srgb_curve(tags[tag]) for tag in (b"rTRC", b"gTRC", b"bTRC"))
            case "GRAY":
                return _is_srgb_curve(tags[b"kTRC"])
            case _:
                return False
    except (KeyError, struct.error, IndexError, ValueError, OverflowError, ZeroDivisionError, TypeError):
        return False  # damaged, or in a way of its own: the colour engine decides


def description(profile: bytes) -> str | None:
    """The profile's own name (`Display P3`); None where it cannot be read."""
    try:
        tag = _tags(profile)[b"desc"]
        if tag[:4] == b"mluc":  # version 4: the first of its languages
            size, offset = struct.unpack(">II", tag[20:28])
            text = tag[offset : offset + size].decode("utf-16-be")
        else:  # version 2: ASCII, with its length
            (size,) = struct.unpack(">I", tag[8:12])
            text = tag[12 : 12 + size].decode("latin-1")
    except (KeyError, struct.error, ValueError):
        return None
    cleaned = "".join(one for one in text.partition("\0")[0] if one.isprintable()).strip()[:100]
    return cleaned or None


def _tags(profile: bytes) -> dict[bytes, bytes]:
    (count,) = struct.unpack(">I", profile[128:132])
    entries = struct.iter_unpack(">4sII", profile[132 : 132 + 12 * min(count, _MAX_TAGS)])
    return {name: profile[offset : offset + size] for name, offset, size in entries}


def _xyz(tag: bytes) -> tuple[float, ...]:
    return tuple(value / 65536 for value in struct.unpack(">3i", tag[8:20]))


def _is_near(found: tuple[float, ...], wanted: tuple[float, ...]) -> bool:
    return all(abs(a - b) <= _PRIMARY_TOLERANCE for a, b in zip(found, wanted, strict=True))


def _is_srgb_curve(tag: bytes) -> bool:
    return all(abs(_value(tag, x) - _srgb(x)) <= _CURVE_TOLERANCE for x in _CURVE_POINTS)


def _srgb(x: float) -> float:
    return x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4


def _value(tag: bytes, x: float) -> float:
    """The curve at `x`, both from 0 to 1."""
    if tag[:4] == b"para":
        return _parametric(tag, x)
    if tag[:4] != b"curv":
        raise ValueError("a curve of an unknown kind")
    (count,) = struct.unpack(">I", tag[8:12])
    if count == 0:
        return x
    if count == 1:
        return float(x ** (struct.unpack(">H", tag[12:14])[0] / 256))
    at = x * (count - 1)
    low = min(int(at), count - 2)
    first, second = struct.unpack(">2H", tag[12 + 2 * low : 16 + 2 * low])
    return float((first + (second - first) * (at - low)) / 65535)


def _parametric(tag: bytes, x: float) -> float:
    (kind,) = struct.unpack(">H", tag[8:10])
    count = (1, 3, 4, 5, 7)[kind]
    given = [value / 65536 for value in struct.unpack(f">{count}i", tag[12 : 12 + 4 * count])]
    g, a, b, c, d, e, f = (given + [0.0] * 7)[:7]
    if kind == 0:
        return float(x**g)
    if kind == 1:
        return float((a * x + b) ** g) if x >= -b / a else 0.0
    if kind == 2:
        return float((a * x + b) ** g + c) if x >= -b / a else c
    return float((a * x + b) ** g + e) if x >= d else c * x + f
