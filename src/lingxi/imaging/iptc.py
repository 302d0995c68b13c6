"""Captions that editors write: IPTC-IIM records (IPTC 4.2), as they lie in a JPEG's Photoshop segment or by themselves."""

from typing import Any, Final

from lingxi.imaging.exif import clean_text

_TEXTS: Final = {5: "title", 120: "caption", 80: "creator", 116: "copyright"}
_PLACES: Final = {90: "city", 92: "sublocation", 95: "state", 101: "country"}
_KEYWORD: Final = 25
MAX_KEYWORDS: Final = 32


def read_iptc(data: bytes) -> dict[str, Any]:
    """Title, caption, creator, copyright and keywords, and places under `places`. ValueError when it is damaged."""
    found: dict[str, Any] = {}
    for dataset, value in _records(_iim(data)):
        text = clean_text(value)
        if not text:
            continue
        if dataset in _TEXTS:
            found.setdefault(_TEXTS[dataset], text)
        elif dataset == _KEYWORD and len(found.get("keywords", [])) < MAX_KEYWORDS:
            found.setdefault("keywords", []).append(text[:64])
        elif dataset in _PLACES:
            found.setdefault("places", {}).setdefault(_PLACES[dataset], text)
    return found


def _iim(data: bytes) -> bytes:
    """The records themselves: those of the resource 0x0404 where they are wrapped in Photoshop's."""
    at = data.find(b"8BIM\x04\x04")
    if at < 0:
        if not data.startswith((b"\x1c", b"Photoshop", b"8BIM")):
            raise ValueError("no records")
        return data if data.startswith(b"\x1c") else b""
    at += 6
    at += (data[at] + 2) & ~1  # the resource's name, padded to an even length
    size = int.from_bytes(data[at : at + 4])
    if at + 4 + size > len(data):
        raise ValueError("records that are cut off")
    return data[at + 4 : at + 4 + size]


def _records(data: bytes) -> list[tuple[int, bytes]]:
    """Datasets of record 2, the application's."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at + 5 <= len(data) and data[at] == 0x1C:
        record, dataset = data[at + 1], data[at + 2]
        size = int.from_bytes(data[at + 3 : at + 5])
        at += 5
        if size > 0x7FFF or at + size > len(data):
            raise ValueError("a dataset that is cut off")
        if record == 2:
            found.append((dataset, data[at : at + size]))
        at += size
    return found
