"""Names of objects: what people call their files, in any script. A name is a row; no path is ever made from it."""

import unicodedata
from typing import Final

MAX_CHARACTERS: Final = 255  # so at most 1,020 bytes of UTF-8

_REFUSED = {
    "Cc": "a control character",
    "Cs": "half of a surrogate pair",
    "Zl": "a line break",
    "Zp": "a line break",
}


def normalise_object_name(name: str) -> str:
    """The name in NFC, the one form under which it is kept and found (a Mac may send another one).

    ValueError, with a sentence that names the problem, for a name that is empty, longer than 255 characters,
    holds control characters or line breaks, or has an empty, `.` or `..` segment between slashes.
    """
    if not name:
        raise ValueError("The name is empty.")
    if len(name) > 4 * MAX_CHARACTERS:  # no NFC form is so much shorter: do not normalise a megabyte
        raise ValueError(f"The name is longer than {MAX_CHARACTERS} characters.")
    for character in name:
        if what := _REFUSED.get(unicodedata.category(character)):
            raise ValueError(f"The name holds {what} (U+{ord(character):04X}).")
    name = unicodedata.normalize("NFC", name)
    if len(name) > MAX_CHARACTERS:
        raise ValueError(f"The name is longer than {MAX_CHARACTERS} characters.")
    for segment in name.split("/"):
        if not segment:
            raise ValueError("The name has an empty segment: it begins or ends with '/', or holds '//'.")
        if segment in (".", ".."):
            raise ValueError(f"The name has the segment '{segment}'.")
    return name
