"""Colours of variants: sRGB of eight bits on white, whatever the original is made of."""

from __future__ import annotations

import struct

import pytest
import pyvips
from PIL import Image

from tests.integration.imaging.conftest import Make, assert_colour, assert_upright, flat, gray
from tests.support.jpeg import with_segments
from tests.support.kinds import deep_heic, encoded
from tests.support.pictures import HEIC_GREEN_P3, corners, icc_profile, picture, with_profile

# ── colours ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_display_p3_becomes_srgb(make: Make) -> None:
    upright = corners(3000, 2000)
    p3 = upright.icc_transform("p3", input_profile="srgb", intent="relative")
    assert_upright(await make(p3.jpegsave_buffer(Q=95)), 8)
    assert_upright(await make(p3.pngsave_buffer(compression=1)), 8)
    untagged = await make(p3.jpegsave_buffer(Q=95, keep="none"))
    with pytest.raises(AssertionError):
        assert_upright(untagged, 8)  # so the profile does make a difference


async def test_display_p3_that_is_said_in_three_numbers(make: Make) -> None:
    """As HEIC and AVIF of some phones do, instead of a profile. HDR's are no matter of a profile, and left as they are."""
    at = HEIC_GREEN_P3.index(b"colrnclx") + 8
    for primaries, transfer, wanted in (
        (12, 13, (0, 193, 20)),
        (1, 13, (40, 190, 59)),
        (12, 16, (40, 190, 59)),
    ):
        said = bytes([0, primaries, 0, transfer])
        made = await make(HEIC_GREEN_P3[:at] + said + HEIC_GREEN_P3[at + 4 :])
        assert_colour(made.colour(0.5, 0.5), wanted, 5)


async def test_a_profile_that_is_srgb_changes_no_pixel(make: Make) -> None:
    image = picture("jpeg", 300, 200)
    plain = pyvips.Image.jpegload_buffer(image)
    srgb = plain.icc_export(output_profile="srgb").get("icc-profile-data")
    tagged = with_segments(image, (0xE2, b"ICC_PROFILE\0\x01\x01" + bytes(srgb)))
    assert (await make(tagged)).browse == (await make(image)).browse


@pytest.mark.parametrize("gamma", [1.0, 1.8])
async def test_gray_with_a_profile(make: Make, gamma: float) -> None:
    image = with_profile(gray(128), icc_profile(b"GRAY", {b"kTRC": gamma}, {}))
    light = (128 / 255) ** gamma
    wanted = 255 * (1.055 * light ** (1 / 2.4) - 0.055)
    for data in (image.jpegsave_buffer(Q=95), image.pngsave_buffer()):
        assert_colour((await make(data)).colour(0.5, 0.5), (wanted,) * 3)


async def test_gray_without_a_profile_or_with_one_for_colours(make: Make) -> None:
    p3 = flat(1, 2, 3).icc_export(output_profile="p3").get("icc-profile-data")
    for image in (gray(128), with_profile(gray(128), bytes(p3)), with_profile(gray(128), b"no profile" * 30)):
        assert_colour((await make(image.jpegsave_buffer(Q=95))).colour(0.5, 0.5), (128, 128, 128))


@pytest.mark.parametrize("class_of_profile", [b"link", b"mntr"])
async def test_a_profile_that_nobody_can_use_is_no_reason_to_refuse_a_photo(
    make: Make, class_of_profile: bytes
) -> None:
    primaries = {b"rXYZ": (0.4, 0.2, 0.0)}  # and no others
    profile = icc_profile(b"RGB ", {b"rTRC": 2.2}, primaries)
    image = with_profile(corners(120, 80), profile[:12] + class_of_profile + profile[16:])
    assert_upright(await make(image.jpegsave_buffer(Q=95)))


SRGB_PRIMARIES = {
    b"rXYZ": (0.4361, 0.2225, 0.0139),
    b"gXYZ": (0.3851, 0.7169, 0.0971),
    b"bXYZ": (0.1431, 0.0606, 0.7141),
}
INKS = {(0.2, 0.5): (150, 70, 60), (0.8, 0.5): (70, 120, 80)}


def inks(depth: int = 8) -> pyvips.Image:
    """Two colours that ink can show, said in ink."""
    left, right = (flat(*colour) for colour in INKS.values())
    image = left.join(right, "horizontal").icc_transform(
        "cmyk", input_profile="srgb", intent="perceptual", depth=depth
    )
    assert image.bands == 4
    return image


async def test_gray_of_ten_bits_in_a_heic(make: Make) -> None:
    made = await make(deep_heic(gray(150).cast("ushort").linear(257, 0).cast("ushort")))
    assert_colour(made.colour(0.5, 0.5), (150, 150, 150))


async def test_cmyk_with_and_without_a_profile(make: Make) -> None:
    """Without one, the same that it would have with the built-in profile; never the plain formula."""
    image = inks()
    wanted = image.icc_transform("srgb", embedded=True, intent="perceptual")
    plain = image.copy(interpretation="cmyk").colourspace("srgb")
    for keep in ("all", "none"):
        made = await make(image.jpegsave_buffer(Q=95, subsample_mode="off", keep=keep))
        assert (made.pixels - wanted).abs().avg() < 2
        assert (made.pixels - plain).abs().avg() > 4
        for place, colour in INKS.items():
            assert_colour(made.colour(*place), colour, 25)


async def test_cmyk_of_sixteen_bits(make: Make) -> None:
    image = inks(16)
    assert image.format == "ushort"
    wanted = image.icc_transform("srgb", embedded=True, intent="perceptual", depth=8)
    for keep in ("all", "none"):
        made = await make(image.tiffsave_buffer(compression="lzw", keep=keep))
        assert (made.pixels - wanted).abs().avg() < 2


async def test_sixteen_bits(make: Make) -> None:
    """The upper byte of a sample is what counts, so the lower one says something else here."""
    deep = (corners(120, 80).cast("ushort") * 256 + 77).cast("ushort").copy(interpretation="rgb16")
    assert_upright(await make(deep.pngsave_buffer()))
    assert_upright(await make(deep.tiffsave_buffer(compression="lzw")))
    shallow = (gray(100).cast("ushort") * 256 + 77).cast("ushort").copy(interpretation="grey16")
    assert_colour((await make(shallow.pngsave_buffer())).colour(0.5, 0.5), (100, 100, 100))


async def test_sixteen_bits_of_light_keep_their_shadows(make: Make) -> None:
    """A profile with a linear curve is applied before the lower bits are gone: gray 12 of 255 is 0.37 % of light."""
    linear = icc_profile(b"RGB ", dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), 1.0), SRGB_PRIMARIES)
    dark = flat(*[round(65535 * 12 / 255 / 12.92)] * 3, interpretation="rgb16", kind="ushort")
    made = await make(with_profile(dark, linear).tiffsave_buffer())
    assert_colour(made.colour(0.5, 0.5), (12, 12, 12), 1.5)


# ── transparency ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["png", "webp", "tiff", "avif"])
async def test_what_is_transparent_becomes_white(make: Make, kind: str) -> None:
    """Whatever colour lies under it."""
    image = flat(200, 0, 0, 0)
    data = {
        "png": lambda: image.pngsave_buffer(),
        "webp": lambda: image.webpsave_buffer(lossless=True, exact=True),
        "tiff": lambda: image.tiffsave_buffer(),
        "avif": lambda: image.heifsave_buffer(compression="av1", lossless=True),
    }[kind]()
    assert_colour((await make(data)).colour(0.5, 0.5), (255, 255, 255), 1)


async def test_half_transparent_is_half_white_at_every_depth(make: Make) -> None:
    half = flat(200, 0, 100, 128)
    deep = (half.cast("ushort") * 257).cast("ushort").copy(interpretation="rgb16")
    on_gray = flat(60, 128, interpretation="b-w")
    linear = icc_profile(b"RGB ", dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), 1.0), SRGB_PRIMARIES)
    clear = with_profile(flat(0, 0, 0, 0, interpretation="rgb16", kind="ushort"), linear)
    assert_colour((await make(clear.pngsave_buffer())).colour(0.5, 0.5), (255, 255, 255), 1)
    for image, wanted in ((half, (227, 127, 177)), (deep, (227, 127, 177)), (on_gray, (157, 157, 157))):
        assert_colour((await make(image.pngsave_buffer())).colour(0.5, 0.5), wanted, 2)


async def test_an_edge_of_transparency_has_no_fringe(make: Make) -> None:
    """Green that nobody can see must not shine through when the picture is made smaller."""
    left, right = (
        part.resize(2000 / 64, vscale=400 / 48) for part in (flat(255, 255, 255, 255), flat(0, 255, 0, 0))
    )
    image = left.join(right, "horizontal")
    made = await make(image.pngsave_buffer(compression=1))
    assert made.sizes[1] == (2048, 205)
    assert made.pixels.min() >= 253


@pytest.mark.parametrize("transparent", [False, True])
async def test_what_the_first_frame_of_a_gif_leaves_free_is_white(make: Make, transparent: bool) -> None:
    frame = Image.new("P", (40, 30), 1)
    frame.putpalette([0, 0, 0, 220, 30, 30, 0, 200, 0])
    data = bytearray(encoded(frame, "GIF", **({"transparency": 2} if transparent else {})))
    descriptor = data.index(b"\x2c", 13 + 3 * (2 << (data[10] & 7)))
    data[6:10] = struct.pack("<HH", 120, 90)  # the canvas
    data[descriptor + 1 : descriptor + 5] = struct.pack("<HH", 60, 30)
    made = await make(bytes(data))
    assert made.sizes[0] == (120, 90)
    assert_colour(made.colour(0.6, 0.45), (220, 30, 30), 6)
    for place in ((0.1, 0.1), (0.1, 0.85), (0.85, 0.85)):
        assert_colour(made.colour(*place), (255, 255, 255))


async def test_a_transparent_gif_and_its_first_frame_only(make: Make) -> None:
    strip = flat(250, 10, 10, 255).join(flat(0, 0, 0, 0), "vertical").copy()
    strip.set_type(pyvips.GValue.gint_type, "page-height", 48)
    made = await make(strip.gifsave_buffer())
    assert made.sizes[0] == (64, 48)
    assert_colour(made.colour(0.5, 0.5), (250, 10, 10), 8)
