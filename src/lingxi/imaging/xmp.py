"""The few things of an XMP packet (ISO 16684-1) that people look for. Parsed in the decoder's process, which has limits."""

import xml.etree.ElementTree as ElementTree
from typing import Any, Final

from lingxi.imaging.exif import clean_text
from lingxi.imaging.iptc import MAX_KEYWORDS

_RDF: Final = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_XMP: Final = "{http://ns.adobe.com/xap/1.0/}"
_EXIF: Final = "{http://ns.adobe.com/exif/1.0/}"
_AUX: Final = "{http://ns.adobe.com/exif/1.0/aux/}"
_TEXTS: Final = {
    f"{_DC}title": "title",
    f"{_DC}description": "caption",
    f"{_DC}creator": "creator",
    f"{_DC}rights": "copyright",
}
_MAX_BYTES: Final = 1 << 20


def read_xmp(data: bytes) -> dict[str, Any]:
    """Title, caption, creator, copyright, keywords, rating, lens, and `has_position`. ValueError when it is damaged."""
    data = data.strip(b"\0 \r\n\t")
    # Entities have no business here; and UTF-16, which images never carry, would write them with other bytes.
    if len(data) > _MAX_BYTES or b"<!" in data or b"\0" in data:
        raise ValueError("not a plain packet")
    try:
        root = ElementTree.fromstring(data)  # noqa: S314 - no document type, bounded
    except ElementTree.ParseError as error:
        raise ValueError("no XML") from error
    found: dict[str, Any] = {"has_position": False}
    for description in root.iter(f"{_RDF}Description"):
        for name, value in description.attrib.items():
            _take(found, name, [value])
        for child in description:
            listed = [item.text or "" for item in child.iter(f"{_RDF}li")]
            _take(found, child.tag, listed or [child.text or ""])
    return found


def _take(found: dict[str, Any], name: str, values: list[str]) -> None:
    cleaned = [text for text in (clean_text(value.encode("utf-8", "replace")) for value in values) if text]
    if not cleaned:
        return
    if name in _TEXTS:
        found.setdefault(_TEXTS[name], ", ".join(cleaned)[:300])
    elif name == f"{_DC}subject":
        found.setdefault("keywords", [text[:64] for text in cleaned[:MAX_KEYWORDS]])
    elif name == f"{_XMP}Rating":
        try:
            rating = float(cleaned[0])
        except ValueError:
            return
        if -1 <= rating <= 5:
            found["rating"] = rating
    elif name == f"{_AUX}Lens":
        found.setdefault("lens", cleaned[0])
    elif name in (f"{_EXIF}GPSLatitude", f"{_EXIF}GPSLongitude"):
        found["has_position"] = True
