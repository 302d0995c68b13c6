"""Colours as a browser without a profile shows them: sRGB of eight bits on white."""

from typing import Final

import pyvips

from lingxi.imaging import icc

PROFILE: Final = "icc-profile-data"
_DISPLAY_P3: Final = 12  # primaries, as a number of H.273; 2 says nothing
_UNSPECIFIED: Final = 2
_LIKE_SRGB: Final = {1, 2, 6, 13}  # transfers that are shown as sRGB's; not those of HDR
_OF_EIGHT_BITS: Final = {"rgb16": "srgb", "grey16": "b-w", "cmyk": "cmyk"}
_PROFILE_FITS: Final = {
    "RGB": ("srgb", "rgb", "rgb16", "scrgb"),
    "GRAY": ("b-w", "grey16"),
    "CMYK": ("cmyk",),
    "Lab": ("lab", "labs"),
}


def on_white(image: pyvips.Image, profile: bytes | None) -> pyvips.Image:
    """Without transparency, and of eight bits unless a profile will need more.

    To flatten first and resize then gives the pixels that premultiply, resize, unpremultiply, flatten gives (both are
    linear, and white is opaque), on three bands of bytes instead of four of floats.
    """
    if image.format == "ushort" and image.interpretation in _OF_EIGHT_BITS and not _applies(image, profile):
        image = image.msb().copy(interpretation=_OF_EIGHT_BITS[image.interpretation])
    if not image.hasalpha():
        return image
    white = (
        0.0 if image.interpretation == "cmyk" else {"ushort": 65535.0, "uchar": 255.0}.get(image.format, 1.0)
    )
    return image.flatten(background=[white])


def to_srgb(image: pyvips.Image, profile: bytes | None) -> pyvips.Image:
    """Three bands of bytes. Called when the picture is small: a transform takes its time for each pixel."""
    if _applies(image, profile):
        try:
            return image.icc_transform("srgb", embedded=True, intent="perceptual", depth=8)
        except pyvips.Error:
            pass  # a profile that the colour engine refuses is no reason to refuse the photo
    if image.interpretation == "cmyk":
        # Ink has no colours of its own: libvips's SWOP-like profile is what sharp takes too.
        image = image.icc_transform("srgb", input_profile="cmyk", intent="perceptual", depth=8)
    elif image.interpretation in ("lab", "labs"):
        image = of_lab(image.colourspace("lab"))
    elif image.interpretation != "srgb":
        image = image.colourspace("srgb")
    if image.bands > 3:
        image = image.extract_band(0, n=3)
    return image if image.format == "uchar" else image.cast("uchar")


def of_lab(image: pyvips.Image) -> pyvips.Image:
    """sRGB of a file's Lab, whose white is D50 as in a profile; libvips's own conversion takes it for D65's."""
    return image.icc_export(output_profile="srgb", intent="perceptual", depth=8)


def with_profile(image: pyvips.Image, profile: bytes) -> pyvips.Image:
    """The same numbers under `profile`, unless they have one of their own."""
    if image.get_typeof(PROFILE) != 0:
        return image
    tagged = image.copy()
    tagged.set_type(pyvips.GValue.blob_type, PROFILE, profile)
    return tagged


def profile_of(colours: set[tuple[int, int]]) -> bytes | None:
    """The profile that stands for what a HEIC's or AVIF's boxes say (primaries and transfer); None: as sRGB."""
    said = {colour for colour in colours if colour[0] != _UNSPECIFIED}
    if not said or any(
        primaries != _DISPLAY_P3 or transfer not in _LIKE_SRGB for primaries, transfer in said
    ):
        return None
    pixel = pyvips.Image.black(1, 1, bands=3).cast("uchar").copy(interpretation="srgb")
    return bytes(pixel.icc_export(output_profile="p3").get(PROFILE))


def _applies(image: pyvips.Image, profile: bytes | None) -> bool:
    """Is there a profile, for numbers of this kind, that changes anything?"""
    if profile is None or icc.is_srgb(profile):
        return False
    return image.interpretation in _PROFILE_FITS.get(icc.color_space(profile), ())
