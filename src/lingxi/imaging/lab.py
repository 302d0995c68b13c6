"""TIFFs in CIE L*a*b* of eight bits, as Photoshop writes them. libvips takes them for a packing of its own and refuses
them, so they are read as if their numbers were red, green and blue, and said to be Lab afterwards."""

import pyvips

from lingxi.imaging.colour import of_lab
from lingxi.imaging.tiff import Content, Reader

_BITS, _PHOTOMETRIC = 258, 262
_RGB, _CIE_LAB, _ICC_LAB = 2, 8, 9  # ICC's differs in that a* and b* begin at -128


def encoding_of(content: Content) -> int | None:
    """Which of the two the first directory says; None when it says none, or other than eight bits."""
    try:
        reader = Reader(content)
        first = reader.first_entries()
        photometric = reader.values(first, _PHOTOMETRIC)
        bits = reader.values(first, _BITS)
    except EOFError:
        return None
    return photometric[0] if photometric in ([_CIE_LAB], [_ICC_LAB]) and set(bits) == {8} else None


def as_rgb(content: Content) -> bytes:
    """The file with another photometric interpretation in its first directory."""
    reader = Reader(content)
    at = reader.first_entries()[_PHOTOMETRIC].start
    return content[:at] + _RGB.to_bytes(2, "little" if reader.order == "<" else "big") + content[at + 2 :]


def to_rgb(image: pyvips.Image, encoding: int) -> pyvips.Image:
    """sRGB of eight bits, from the numbers as they are in the file; transparency stays."""
    lightness = image[0] * (100 / 255)
    colours = [image[1], image[2]]
    if encoding == _ICC_LAB:
        colours = [band - 128 for band in colours]
    else:
        colours = [(band > 127).ifthenelse(band - 256, band) for band in colours]
    lab = lightness.bandjoin(colours).copy(interpretation="lab")
    rgb = of_lab(lab)
    return rgb if image.bands < 4 else rgb.bandjoin(image[3])
