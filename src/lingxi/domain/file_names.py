"""Names of uploaded files: shown to people as the photographer gave them, in any script. No path is ever made from one."""

import re
import unicodedata
from typing import Final

MAX_CHARACTERS: Final = 255
UNNAMED: Final = "unnamed"

# What ends a line, or turns its direction: with U+202E `photo\u202egpj.exe` is read as `photoexe.jpg`.
_UNSEEN: Final = re.compile(r"[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_BROWSERS_ESCAPES: Final = {"%22": '"', "%0D": "", "%0A": ""}  # all that a form's file name has escaped
_SEPARATORS: Final = re.compile(r"[/\\]")


def shown_file_name(given: bytes | str | None) -> str:
    """The name to keep: never empty, at most 255 characters, one line, NFC, without folders.

    Bytes are read as UTF-8; what is none becomes U+FFFD. A name that is too long keeps its beginning and its suffix.
    """
    text = given.decode("utf-8", "replace") if isinstance(given, bytes) else given or ""
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no character
    for escape, character in _BROWSERS_ESCAPES.items():
        text = text.replace(escape, character)
    text = _SEPARATORS.split(_UNSEEN.sub("", text))[-1]
    text = unicodedata.normalize("NFC", text[: 64 * MAX_CHARACTERS]).strip()
    if text.strip(".") == "":
        return UNNAMED
    return text if len(text) <= MAX_CHARACTERS else _shortened(text)


def _shortened(text: str) -> str:
    stem, dot, suffix = text.rpartition(".")
    if not dot or len(suffix) > 10:
        return text[: MAX_CHARACTERS - 1] + "…"
    return stem[: MAX_CHARACTERS - len(suffix) - 2] + "…." + suffix
