"""Facts from EXIF, IPTC and XMP: each field for itself, damage included."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from lingxi.imaging.exif import Exif
from lingxi.imaging.icc import description
from lingxi.imaging.iptc import read_iptc
from lingxi.imaging.xmp import read_xmp

ASCII, SHORT, LONG, RATIONAL, SIGNED = 2, 3, 4, 5, 10
Field = tuple[int, int, Any]


def exif(*, main: list[Field], photo: list[Field] | None = None, gps: list[Field] | None = None) -> bytes:
    """A little-endian structure with its sub-directories."""
    out = bytearray(b"II*\0\x08\0\0\0")
    pointers = [(34665, photo), (34853, gps)]
    fields = [*main, *((tag, LONG, 0) for tag, given in pointers if given is not None)]
    places = _directory(out, fields)
    for tag, given in pointers:
        if given is not None:
            struct.pack_into("<I", out, places[tag], len(out))
            _directory(out, given)
    return bytes(out)


def _directory(out: bytearray, fields: list[Field]) -> dict[int, int]:
    """Appended; where the value of each tag lies."""
    at = len(out)
    out += struct.pack("<H", len(fields)) + bytes(12 * len(fields) + 4)
    places = {}
    for index, (tag, kind, value) in enumerate(fields):
        if kind == ASCII:
            data, count = value.encode() + b"\0", len(value.encode()) + 1
        elif kind in (RATIONAL, SIGNED):
            parts = value if isinstance(value[0], tuple) else [value]
            data = b"".join(struct.pack("<ii" if kind == SIGNED else "<II", *part) for part in parts)
            count = len(parts)
        else:
            data, count = struct.pack("<H" if kind == SHORT else "<I", value), 1
        entry = at + 2 + 12 * index
        struct.pack_into("<HHI", out, entry, tag, kind, count)
        places[tag] = entry + 8
        if len(data) <= 4:
            out[entry + 8 : entry + 8 + len(data)] = data
        else:
            struct.pack_into("<I", out, entry + 8, len(out))
            out += data
    return places


MAIN: list[Field] = [(271, ASCII, "Canon"), (272, ASCII, "EOS R5"), (315, ASCII, "Ana Müller")]
PHOTO: list[Field] = [
    (33434, RATIONAL, (1, 250)),
    (33437, RATIONAL, (28, 10)),
    (34855, SHORT, 400),
    (36867, ASCII, "2026:05:01 12:30:00"),
    (37380, SIGNED, (-2, 3)),
    (37385, SHORT, 17),
    (37386, RATIONAL, (850, 10)),
    (41989, SHORT, 85),
    (42036, ASCII, "RF 85mm F1.2"),
]
GPS: list[Field] = [
    (1, ASCII, "S"),
    (2, RATIONAL, [(33, 1), (51, 1), (3540, 100)]),
    (3, ASCII, "W"),
    (4, RATIONAL, [(70, 1), (30, 1), (0, 1)]),
    (6, RATIONAL, (500, 10)),
]


@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
def test_all_of_it(prefix: bytes) -> None:
    found = Exif(prefix + exif(main=MAIN, photo=PHOTO, gps=GPS))
    assert found.camera() == {
        "make": "Canon",
        "model": "EOS R5",
        "lens": "RF 85mm F1.2",
        "exposure_seconds": 0.004,
        "aperture": 2.8,
        "focal_length_mm": 85.0,
        "exposure_bias": pytest.approx(-0.6666667),
        "iso": 400,
        "focal_length_35mm": 85,
        "flash_fired": True,
    }
    assert found.captured_local() == "2026-05-01T12:30:00"
    assert found.texts() == {"creator": "Ana Müller"}
    assert found.position() == {
        "latitude": pytest.approx(-33.8598333),
        "longitude": pytest.approx(-70.5),
        "altitude_meters": 50.0,
    }
    assert found.damaged == []


def test_each_damage_costs_its_field() -> None:
    photo = [
        (33434, RATIONAL, (1, 0)),  # a division by zero
        (33437, RATIONAL, (28, 10)),
        (36867, ASCII, "0000:00:00 00:00:00"),
        (41989, SHORT, 0),  # says that it does not know
    ]
    found = Exif(exif(main=MAIN, photo=photo, gps=[(2, RATIONAL, (1, 1)), (4, RATIONAL, (1, 1))]))
    assert found.camera() == {"make": "Canon", "model": "EOS R5", "aperture": 2.8}
    assert found.captured_local() is None
    assert found.has_position() and found.position() is None
    assert found.damaged == ["exposure_seconds", "captured_local", "latitude", "longitude"]


@pytest.mark.parametrize("taken", ["2026:02:31 12:00:00", "2026:05:01 24:00:00", "٢٠٢٦:05:01 12:00:00"])
def test_a_time_that_never_was_is_damaged(taken: str) -> None:
    found = Exif(exif(main=MAIN, photo=[(36867, ASCII, taken)]))
    assert (found.captured_local(), found.damaged) == (None, ["captured_local"])


def test_no_structure_at_all_is_one_damage() -> None:
    for data in (b"", b"II", b"junk and more junk", b"II*\0\xff\xff\xff\xff"):
        found = Exif(data)
        assert (found.camera(), found.position(), found.damaged) == ({}, None, ["exif"])


def test_random_damage_never_raises() -> None:
    chance = random.Random(11)
    whole = exif(main=MAIN, photo=PHOTO, gps=GPS)
    for _ in range(600):
        data = bytearray(whole[: chance.randrange(8, len(whole) + 1)])
        for _ in range(chance.randrange(6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        found = Exif(bytes(data))
        found.camera(), found.texts(), found.position(), found.captured_local(), found.has_position()


def iptc(*records: tuple[int, bytes]) -> bytes:
    return b"".join(b"\x1c\x02" + bytes([number]) + len(text).to_bytes(2) + text for number, text in records)


def photoshop(records: bytes) -> bytes:
    size = len(records).to_bytes(4)
    return b"Photoshop 3.0\x008BIM\x03\xed\0\0\0\0\0\x048888" + b"8BIM\x04\x04\0\0" + size + records


def test_iptc() -> None:
    records = iptc((5, b"The gate"), (25, b"gate"), (25, "Straße".encode()), (90, b"Berlin"), (80, b"A\0"))
    expected = {
        "title": "The gate",
        "keywords": ["gate", "Straße"],
        "places": {"city": "Berlin"},
        "creator": "A",
    }
    assert read_iptc(records) == read_iptc(photoshop(records)) == expected
    assert read_iptc(b"Photoshop 3.0\x008BIM\x03\xed\0\0\0\0\0\x048888") == {}
    for broken in (records[:-1], b"junk", photoshop(records)[:-5]):
        with pytest.raises(ValueError, match=r"records|dataset"):
            read_iptc(broken)


PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/"
 xmlns:aux="http://ns.adobe.com/exif/1.0/aux/" xmlns:exif="http://ns.adobe.com/exif/1.0/" xmp:Rating="4" aux:Lens="50mm"
 exif:GPSLatitude="52,31N"><dc:title><rdf:Alt><rdf:li xml:lang="x-default">Gate</rdf:li></rdf:Alt></dc:title>
<dc:subject><rdf:Bag><rdf:li>a</rdf:li><rdf:li>b</rdf:li></rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>"""


def test_xmp() -> None:
    assert read_xmp(PACKET.encode()) == {
        "has_position": True,
        "rating": 4.0,
        "lens": "50mm",
        "title": "Gate",
        "keywords": ["a", "b"],
    }


@pytest.mark.parametrize(
    "data",
    [
        b"<x",
        b"",
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        PACKET.encode()[:-9],
        b"\xff\xfe<a/>",
        b"\xfe\xff" + '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'.encode("utf-16-be"),
    ],
)
def test_xmp_that_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"packet|XML"):
        read_xmp(data)


def profile(tag: bytes) -> bytes:
    return bytes(36) + b"acsp" + bytes(88) + struct.pack(">I4sII", 1, b"desc", 144, len(tag)) + tag


def test_the_name_of_a_colour_profile() -> None:
    old = b"desc" + bytes(4) + struct.pack(">I", 9) + b"Adobe RGB"[:8] + b"\0"
    new = b"mluc" + bytes(4) + struct.pack(">II2s2sII", 1, 12, b"en", b"US", 20, 28)
    new += "Display P3 and more".encode("utf-16-be")
    assert description(profile(old)) == "Adobe RG"
    assert description(profile(new)) == "Display P3"
    for broken in (b"", b"junk", bytes(200), profile(b"mluc")):
        assert description(broken) is None
