"""What a decoder's words mean for the person whose picture it was."""

import mmap
import re
from typing import Final

from lingxi.imaging import limits
from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import ImageKind
from lingxi.imaging.wholeness import png_size, undecodable

_SAYS_UNSUPPORTED: Final = re.compile(
    r"not implemented|not configured|not been built|unsupported jpeg process", re.IGNORECASE
)
_SAYS_TOO_LARGE: Final = re.compile(r"security limit|maximum image size", re.IGNORECASE)
_SAYS_INCOMPLETE: Final = "premature end"


def refused(kind: ImageKind, content: mmap.mmap, message: str) -> ImageError:
    """The error for a picture of which the decoder says `message`."""
    if "out of memory" in message.lower():
        return ImageError("decoder_crashed", "Decoding the picture took more memory than is allowed.")
    if kind is ImageKind.PNG:  # libpng has limits of its own, and says nothing
        limits.check_pixels(*png_size(content), limits.max_pixels(kind))
    if _SAYS_TOO_LARGE.search(message):
        return ImageError("too_many_pixels", "The picture's header asks for more than any decoder may take.")
    if _SAYS_UNSUPPORTED.search(message):
        return ImageError("unsupported_type", f"The {kind.name} file uses an encoding that is not accepted.")
    return undecodable(kind, content)


def warned_only(kind: ImageKind, message: str) -> bool:
    """Is it worth another, forgiving try? libjpeg's warnings are mostly of harmless junk between segments; the one that
    is not speaks of pixels that were never there, although the end marker is."""
    return kind is ImageKind.JPEG and _SAYS_INCOMPLETE not in message
