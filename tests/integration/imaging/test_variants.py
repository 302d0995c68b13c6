"""The variants of good photos: upright, in the right colours, at the right size, and with nothing else in them."""

from __future__ import annotations

import hashlib
import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pyvips

from lingxi.imaging.children import Decoders
from tests.integration.imaging.conftest import Made, Make
from tests.support.jpeg import metadata_of, segments, with_segments
from tests.support.pictures import (
    FORMATS,
    HEIC_48x32,
    corners,
    exif,
    icc_profile,
    lying,
    picture,
    with_profile,
)

RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 200, 30), (30, 30, 220), (240, 240, 240)
PLACES = {(0.2, 0.2): RED, (0.8, 0.2): GREEN, (0.2, 0.8): BLUE, (0.8, 0.8): WHITE}


def assert_colour(found: list[float], wanted: tuple[float, ...], tolerance: float = 4) -> None:
    assert len(found) == len(wanted)
    assert all(abs(a - b) <= tolerance for a, b in zip(found, wanted, strict=True)), (found, wanted)


def assert_upright(made: Made, tolerance: float = 4) -> None:
    for place, colour in PLACES.items():
        assert_colour(made.colour(*place), colour, tolerance)


def gray(value: int, width: int = 64, height: int = 48, *, interpretation: str = "b-w") -> pyvips.Image:
    return (pyvips.Image.black(width, height) + value).cast("uchar").copy(interpretation=interpretation)


def flat(*values: int, interpretation: str = "srgb", kind: str = "uchar") -> pyvips.Image:
    image = (pyvips.Image.black(64, 48, bands=len(values)) + list(values)).cast(kind)
    return image.copy(interpretation=interpretation)


# ── what is made ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", FORMATS)
async def test_every_format(make: Make, kind: str) -> None:
    made = await make(picture(kind, 900, 600))
    assert made.photo.content_type == f"image/{kind}"
    assert made.sizes == ((900, 600), (900, 600), (400, 267))


async def test_what_is_said_of_a_variant_is_true(make: Make) -> None:
    made = await make(picture("jpeg", 1000, 700))
    assert [variant.kind for variant in made.photo.variants] == ["browse", "thumb"]
    for variant, data in zip(made.photo.variants, (made.browse, made.thumb), strict=True):
        image = pyvips.Image.jpegload_buffer(data)
        assert (variant.width, variant.height) == (image.width, image.height)
        assert (variant.size_bytes, variant.sha256) == (len(data), hashlib.sha256(data).digest())
        assert variant.content_type == "image/jpeg"
        assert image.bands == 3
    assert 0 < made.photo.decoded_ms <= made.photo.encoded_ms


@pytest.mark.parametrize(
    ("original", "browse", "thumb"),
    [
        ((4032, 3024), (2016, 1512), (400, 300)),  # within the tolerance: no resize
        ((3024, 4032), (1512, 2016), (300, 400)),
        ((4096, 100), (2048, 50), (400, 10)),
        ((4097, 100), (2048, 50), (400, 10)),
        ((3800, 100), (2048, 54), (400, 11)),  # half of it would be too small
        ((6000, 300), (2048, 102), (400, 20)),
        ((2048, 60), (2048, 60), (400, 12)),
        ((2049, 60), (2048, 60), (400, 12)),
        ((401, 299), (401, 299), (400, 298)),
        ((399, 299), (399, 299), (399, 299)),
        ((1, 1), (1, 1), (1, 1)),
        ((17_000, 400), (2048, 48), (400, 9)),
        ((400, 17_000), (48, 2048), (9, 400)),
        ((20_000, 3), (2048, 1), (400, 1)),
        ((3, 20_000), (1, 2048), (1, 400)),
    ],
)
async def test_the_sizes_of_a_jpeg(
    make: Make, original: tuple[int, int], browse: tuple[int, int], thumb: tuple[int, int]
) -> None:
    made = await make(picture("jpeg", *original))
    assert made.sizes == (original, browse, thumb)


@pytest.mark.parametrize("kind", ["png", "webp", "avif", "tiff"])
@pytest.mark.parametrize("original", [(4032, 30), (16_000, 5), (5, 16_000), (4096, 3000)])
async def test_the_sizes_of_other_formats(make: Make, kind: str, original: tuple[int, int]) -> None:
    image = corners(*original)
    options = {"effort": 0} if kind in ("webp", "avif") else {}
    saver = image.heifsave_buffer if kind == "avif" else getattr(image, f"{kind}save_buffer")
    data = saver(**options, **({"compression": "av1"} if kind == "avif" else {}))
    sizes = (await make(data)).sizes
    assert sizes[0] == original
    long_edge = 2016 if (kind, max(original)) == ("webp", 4032) else 2048  # shrunk by 2 while it is decoded
    assert max(sizes[1]) == long_edge
    assert min(sizes[1]) == max(1, round(min(original) * long_edge / max(original)))
    assert max(sizes[2]) == 400


@pytest.mark.parametrize("kind", ["jpeg", "webp"])
@pytest.mark.parametrize("width", [4800, 9600])
async def test_shrinking_while_decoding_gives_the_same_picture(make: Make, kind: str, width: int) -> None:
    image = corners(width, 1200)
    data = image.jpegsave_buffer(Q=90) if kind == "jpeg" else image.webpsave_buffer(Q=90, effort=0)
    made = await make(data)
    assert_upright(made)
    whole = pyvips.Image.new_from_buffer(data, "").resize(2048 / width, vscale=made.sizes[1][1] / 1200)
    assert (made.pixels - whole).abs().avg() < 2


# ── upright ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [(120, 80), (121, 83), (2500, 1501)])
@pytest.mark.parametrize("orientation", range(1, 9))
async def test_every_orientation(make: Make, orientation: int, size: tuple[int, int]) -> None:
    made = await make(lying(corners(*size), orientation).jpegsave_buffer(Q=95, subsample_mode="off"))
    assert made.sizes[0] == size
    assert made.sizes[1] == (size if max(size) < 2048 else (2048, 1230))
    assert_upright(made)


@pytest.mark.parametrize("kind", ["png", "webp", "tiff"])
async def test_other_formats_are_turned_too(make: Make, kind: str) -> None:
    image = lying(corners(120, 80), 6)
    made = await make(getattr(image, f"{kind}save_buffer")())
    assert made.sizes[0] == (120, 80)
    assert_upright(made, 12)


async def test_an_orientation_of_nonsense_turns_nothing(make: Make) -> None:
    image = corners(120, 80).copy()
    image.set_type(pyvips.GValue.gint_type, "orientation", 1)
    data = with_segments(image.jpegsave_buffer(keep="none"), (0xE1, exif(ifd0={271: "x"})))
    assert_upright(await make(data))


async def test_a_container_that_turns_itself_is_not_turned_twice(make: Make) -> None:
    """A HEIC of 48 x 32 with a clean aperture and an EXIF orientation of 6."""
    made = await make(HEIC_48x32)
    assert made.photo.content_type == "image/heic"
    assert made.sizes == ((48, 32), (48, 32), (48, 32))


# ── colours ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_display_p3_becomes_srgb(make: Make) -> None:
    upright = corners(3000, 2000)
    p3 = upright.icc_transform("p3", input_profile="srgb", intent="relative")
    assert_upright(await make(p3.jpegsave_buffer(Q=95)), 8)
    assert_upright(await make(p3.pngsave_buffer(compression=1)), 8)
    untagged = await make(p3.jpegsave_buffer(Q=95, keep="none"))
    with pytest.raises(AssertionError):
        assert_upright(untagged, 8)  # so the profile does make a difference


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


async def test_a_broken_profile_is_no_reason_to_refuse_a_photo(make: Make) -> None:
    profile = icc_profile(b"RGB ", {b"rTRC": 2.2}, {b"rXYZ": (0.4, 0.2, 0.0)})
    assert_upright(await make(with_profile(corners(120, 80), profile).jpegsave_buffer(Q=95)))


INKS = {(0.2, 0.5): (150, 70, 60), (0.8, 0.5): (70, 120, 80)}


def inks(depth: int = 8) -> pyvips.Image:
    """Two colours that ink can show, said in ink."""
    left, right = (flat(*colour) for colour in INKS.values())
    image = left.join(right, "horizontal").icc_transform(
        "cmyk", input_profile="srgb", intent="perceptual", depth=depth
    )
    assert image.bands == 4
    return image


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
    deep = (corners(120, 80).cast("ushort") * 257).cast("ushort").copy(interpretation="rgb16")
    assert_upright(await make(deep.pngsave_buffer()))
    assert_upright(await make(deep.tiffsave_buffer(compression="lzw")))
    shallow = (gray(100).cast("ushort") * 257).cast("ushort").copy(interpretation="grey16")
    assert_colour((await make(shallow.pngsave_buffer())).colour(0.5, 0.5), (100, 100, 100))


async def test_sixteen_bits_of_light_keep_their_shadows(make: Make) -> None:
    """A profile with a linear curve is applied before the lower bits are gone: gray 12 of 255 is 0.37 % of light."""
    primaries = {
        b"rXYZ": (0.4361, 0.2225, 0.0139),
        b"gXYZ": (0.3851, 0.7169, 0.0971),
        b"bXYZ": (0.1431, 0.0606, 0.7141),
    }
    linear = icc_profile(b"RGB ", dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), 1.0), primaries)
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


async def test_a_transparent_gif_and_its_first_frame_only(make: Make) -> None:
    strip = flat(250, 10, 10, 255).join(flat(0, 0, 0, 0), "vertical").copy()
    strip.set_type(pyvips.GValue.gint_type, "page-height", 48)
    made = await make(strip.gifsave_buffer())
    assert made.sizes[0] == (64, 48)
    assert_colour(made.colour(0.5, 0.5), (250, 10, 10), 8)


# ── many pictures in one file ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["gif", "webp", "tiff"])
async def test_the_first_of_many(make: Make, kind: str) -> None:
    """More frames than any format may be high, one below the other."""
    frames = 300
    strip = flat(10, 200, 10).join(pyvips.Image.black(64, 48 * (frames - 1), bands=3), "vertical")
    strip = strip.cast("uchar").copy(interpretation="srgb").copy()
    strip.set_type(pyvips.GValue.gint_type, "page-height", 48)
    data = getattr(strip, f"{kind}save_buffer")(**({"keep_duplicate_frames": True} if kind == "gif" else {}))
    made = await make(data)
    assert made.sizes[0] == (64, 48)
    assert_colour(made.colour(0.5, 0.5), (10, 200, 10), 8)


async def test_the_second_picture_of_an_mpo_is_not_shown(make: Make) -> None:
    first = picture("jpeg", 320, 200)
    assert (await make(first + picture("png", 999, 999))).browse == (await make(first)).browse
    assert (await make(first + picture("jpeg", 999, 999))).browse == (await make(first)).browse


async def test_a_gain_map_is_left_out(make: Make) -> None:
    """Ultra HDR: the picture as everybody sees it."""
    data = corners(320, 200).colourspace("scrgb").uhdrsave_buffer()
    made = await make(data)
    assert made.sizes[0] == (320, 200)
    assert made.photo.content_type == "image/jpeg"
    everybodys = pyvips.Image.jpegload_buffer(data).icc_transform("srgb", embedded=True)
    assert (made.pixels - everybodys).abs().avg() < 2
    assert metadata_of(made.browse) == []
    assert made.browse.count(b"\xff\xd8\xff") == 1


# ── nothing else is in them ──────────────────────────────────────────────────────────────────────────────


async def test_no_metadata_survives(make: Make) -> None:
    thumbnail = picture("jpeg", 32, 24)
    block = exif(
        ifd0={271: "Camera maker", 315: "A. Photographer", 29: "GPS 48.8584 N"},
        details={42033: "SERIAL-0042", 36867: "2026:05:01 12:00:00", 36881: "+02:00"},
        thumbnail=thumbnail,
    )
    secrets = (
        b"Camera maker",
        b"A. Photographer",
        b"48.8584",
        b"SERIAL-0042",
        b"XMP-SECRET",
        b"IPTC-SECRET",
        b"NOTE",
    )
    data = with_segments(
        picture("jpeg", 2400, 1600),
        (0xE1, block),
        (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta>XMP-SECRET</x:xmpmeta>"),
        (0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0bIPTC-SECRET\0"),
        (0xFE, b"NOTE"),
    )
    assert all(secret in data for secret in secrets)
    made = await make(data)
    for variant in (made.browse, made.thumb):
        assert metadata_of(variant) == []
        assert {marker for marker, _ in segments(variant)} <= {0xE0, 0xDB, 0xC0, 0xC4, 0xDD}
        assert not any(secret in variant for secret in secrets)
        assert variant.count(b"\xff\xd8\xff") == 1
    assert made.photo.captured_at == datetime(2026, 5, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "avif", "tiff"])
async def test_metadata_of_every_format_stays_behind(make: Make, kind: str) -> None:
    image = corners(800, 600).copy()
    image.set_type(
        pyvips.GValue.gstr_type,
        "exif-ifd0-Artist",
        "Photographer (Photographer, ASCII, 13 components, 13 bytes)",
    )
    image.set_type(pyvips.GValue.blob_type, "xmp-data", b"<x:xmpmeta>XMP-SECRET</x:xmpmeta>")
    options = {"compression": "av1", "effort": 0} if kind == "avif" else {}
    data = getattr(image, f"{'heif' if kind == 'avif' else kind}save_buffer")(**options)
    assert b"XMP-SECRET" in data or kind == "png"  # which compresses it
    made = await make(data)
    for variant in (made.browse, made.thumb):
        assert metadata_of(variant) == []
        assert b"Photographer" not in variant
        assert b"XMP-SECRET" not in variant


async def test_the_capture_time_of_a_tiff(make: Make) -> None:
    block = exif(details={36867: "2026:05:01 12:00:00", 36881: "+02:00"})
    for kind in ("png", "webp"):
        image = corners(80, 60).copy()
        image.set_type(pyvips.GValue.blob_type, "exif-data", block)
        made = await make(getattr(image, f"{kind}save_buffer")())
        assert made.photo.captured_at == datetime(2026, 5, 1, 10, tzinfo=UTC), kind


@pytest.mark.parametrize("tail", ["zip", "page"])
async def test_a_polyglot_gives_only_its_picture(make: Make, tail: str) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("payload.js", "alert(1)")
    added = archive.getvalue() if tail == "zip" else b"<html><script>alert(1)</script></html>"
    data = with_segments(picture("jpeg", 600, 400), (0xFE, b"/* <script>alert(1)</script> */")) + added
    made = await make(data)
    assert made.photo.content_type == "image/jpeg"
    assert b"script" not in made.browse
    assert b"payload" not in made.browse
    assert made.browse.endswith(b"\xff\xd9")


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_that_is_there_is_never_overwritten(decoders: Decoders, tmp_path: Path) -> None:
    (tmp_path / "thumb.jpg").write_bytes(b"another's")
    (tmp_path / "photo").write_bytes(picture("jpeg"))
    with (tmp_path / "photo").open("rb") as file, pytest.raises(FileExistsError):
        await decoders.make_variants(file.fileno(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photo", "thumb.jpg"]
    assert (tmp_path / "thumb.jpg").read_bytes() == b"another's"
