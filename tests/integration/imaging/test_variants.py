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
from tests.integration.imaging.conftest import Make, assert_colour, assert_upright, flat
from tests.support.jpeg import metadata_of, segments, with_segments
from tests.support.pictures import (
    FORMATS,
    HEIC_48x32,
    corners,
    exif,
    lying,
    picture,
)

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
