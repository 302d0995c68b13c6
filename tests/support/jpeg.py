"""What lies in a JPEG besides its pixels."""

from __future__ import annotations


def segments(data: bytes) -> list[tuple[int, bytes]]:
    """Marker and body of each segment before the first scan."""
    assert data[:2] == b"\xff\xd8"
    found, at = [], 2
    while data[at + 1] != 0xDA:
        assert data[at] == 0xFF
        length = int.from_bytes(data[at + 2 : at + 4])
        found.append((data[at + 1], data[at + 4 : at + 2 + length]))
        at += 2 + length
    return found


def metadata_of(data: bytes) -> list[tuple[int, bytes]]:
    """APPn and COM segments; JFIF's own header, which holds no more than a resolution, excepted."""
    return [
        (marker, body)
        for marker, body in segments(data)
        if (marker & 0xF0 == 0xE0 or marker == 0xFE) and not body.startswith(b"JFIF\0")
    ]


def with_segments(data: bytes, *added: tuple[int, bytes]) -> bytes:
    """The same JPEG with APPn segments (marker and body) in front."""
    packed = b"".join(bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2) + body for marker, body in added)
    return data[:2] + packed + data[2:]
