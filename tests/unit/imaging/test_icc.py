"""Which profiles change nothing."""

import struct
from typing import Any

import pytest
import pyvips
from hypothesis import given
from hypothesis import strategies as st

from lingxi.imaging import icc
from tests.support.pictures import icc_profile

SRGB_PRIMARIES = {
    b"rXYZ": (0.4361, 0.2225, 0.0139),
    b"gXYZ": (0.3851, 0.7169, 0.0971),
    b"bXYZ": (0.1431, 0.0606, 0.7141),
}
ADOBE_PRIMARIES = {
    b"rXYZ": (0.6097, 0.3111, 0.0195),
    b"gXYZ": (0.2053, 0.6257, 0.0609),
    b"bXYZ": (0.1492, 0.0632, 0.7446),
}
TABLE = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (n / 1023 for n in range(1024))]


def built_in(name: str) -> bytes:
    image = pyvips.Image.black(1, 1, bands=3).copy(interpretation="srgb").cast("uchar")
    return bytes(image.icc_export(output_profile=name).get("icc-profile-data"))


def with_table(profile: bytes) -> bytes:
    """The same, with all three curves an sRGB table of 1,024 points, as camera makers write it."""
    body = b"curv\0\0\0\0" + struct.pack(">I1024H", 1024, *(round(v * 65535) for v in TABLE))
    changed = bytearray(profile)
    for number in range(struct.unpack(">I", profile[128:132])[0]):
        at = 132 + 12 * number
        if profile[at : at + 4] in (b"rTRC", b"gTRC", b"bTRC"):
            changed[at + 4 : at + 12] = struct.pack(">II", len(profile), len(body))
    return bytes(changed) + body


def rgb(primaries: dict[bytes, Any], gamma: float) -> bytes:
    return icc_profile(b"RGB ", dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), gamma), primaries)


def test_srgb_in_each_of_its_spellings() -> None:
    assert icc.is_srgb(built_in("srgb"))  # a parametric curve
    assert icc.is_srgb(with_table(rgb(SRGB_PRIMARIES, 2.2)))


@pytest.mark.parametrize(
    "profile",
    [
        built_in("p3"),  # sRGB's curve, other primaries
        rgb(SRGB_PRIMARIES, 2.2),  # sRGB's primaries, another curve
        rgb(SRGB_PRIMARIES, 1.0),
        with_table(rgb(ADOBE_PRIMARIES, 2.2)),
        rgb(ADOBE_PRIMARIES, 2.2),
        icc_profile(b"GRAY", {b"kTRC": 1.8}, {}),
        icc_profile(b"CMYK", {}, {}),
        with_table(rgb(SRGB_PRIMARIES, 2.2)).replace(b"desc", b"A2B0", 1),
        b"",
        b"no profile at all" * 20,
    ],
    ids=["p3", "gamma 2.2", "linear", "adobe table", "adobe", "gray", "cmyk", "lookup", "empty", "text"],
)
def test_others_are_not(profile: bytes) -> None:
    assert not icc.is_srgb(profile)


def test_the_colour_space() -> None:
    assert icc.color_space(built_in("p3")) == "RGB"
    assert icc.color_space(icc_profile(b"GRAY", {b"kTRC": 1.8}, {})) == "GRAY"
    assert icc.color_space(b"") == ""


@given(st.data())
def test_damage_is_never_an_error(data: st.DataObject) -> None:
    profile = built_in("srgb")
    at = data.draw(st.integers(0, len(profile) - 1))
    icc.is_srgb(profile[:at] + bytes([data.draw(st.integers(0, 255))]) + profile[at + 1 :])
    icc.is_srgb(profile[:at])
