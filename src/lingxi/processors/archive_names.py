"""Names inside an archive: any system can unpack them, no two are the same, and none leaves the folder."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

MANIFEST: Final = "manifest.json"
RECEIPT: Final = "receipt.json"
MAX_SEGMENT_BYTES: Final = 200  # file systems take 255; a number may be added

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")  # what cameras and programs call files
_FORBIDDEN: Final = frozenset('<>:"\\|?*')  # to Windows; slashes are folders
_DEVICE: Final = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)")


def archive_name(name: str) -> str:
    """The name with what a file system would mind made to `_`; slashes stay folders."""
    if len(name) <= MAX_SEGMENT_BYTES and _PLAIN.fullmatch(name) and not _DEVICE.match(name):
        return name
    segments = [_segment(segment) for segment in unicodedata.normalize("NFC", name).split("/") if segment]
    return "/".join(segments) or "file"


def _segment(text: str) -> str:
    plain = "".join("_" if char in _FORBIDDEN or not char.isprintable() else char for char in text)
    plain = plain.rstrip(" .") or "_"  # Windows drops them, and `..` is no name
    if _DEVICE.match(plain):
        plain = f"_{plain}"
    stem, dot, ending = plain.rpartition(".")
    if not stem or len(ending) > 10:
        stem, dot, ending = plain, "", ""
    while len(stem.encode()) > MAX_SEGMENT_BYTES:
        stem = stem[:-1]
    return f"{stem}{dot}{ending}".rstrip(" .") or "_"  # it may have been cut where a space or a dot was


def unique_names(names: Iterable[str]) -> Iterator[str]:
    """The names of files, in order, as `archive_name` makes them, and ` (2)`, ` (3)` … added where one is taken.

    Taken is also what differs only by case, what is a folder of another file, and the two names of our own files.
    """
    wanted = [archive_name(name) for name in names]
    taken = {MANIFEST, RECEIPT}
    for name in wanted:
        while "/" in name:
            name = name.rpartition("/")[0]
            taken.add(_key(name))
    counts: dict[str, int] = {}  # so that a thousand equal names are no million tries
    for name in wanted:
        key = _key(name)
        if key in taken:
            name, key = _numbered(name, taken, counts)
        taken.add(key)
        yield name


def _numbered(name: str, taken: set[str], counts: dict[str, int]) -> tuple[str, str]:
    folder, slash, file = name.rpartition("/")
    stem, dot, ending = file.rpartition(".")
    if not stem:
        stem, dot, ending = file, "", ""
    number = counts.get(_key(name), 1)
    while True:
        number += 1
        made = f"{folder}{slash}{stem} ({number}){dot}{ending}"
        if (key := _key(made)) not in taken:
            counts[_key(name)] = number
            return made, key


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
