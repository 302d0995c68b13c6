"""Every way of writing one picture gives that picture; every cut, foreign or lying file gives its code, at little cost.

Each test goes through its whole table with the same children and tells all that is wrong at once.
"""

from __future__ import annotations

import gzip
import os
import struct
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import pyvips
from PIL import Image

from lingxi.imaging.errors import ImageError
from tests.integration.imaging.conftest import PLACES, RED, Make, assert_colour
from tests.integration.imaging.test_hostile_photos import _decoder_pids, _peak_bytes
from tests.support.kinds import (
    encoded,
    heif_grid,
    other_pictures,
    pillow_picture,
    transparent_corner,
    turned_pictures,
)
from tests.support.pictures import corners, jpeg_declaring, picture, png_declaring, tiff_with

TOLERANCE = 20  # of 255, of colours that were encoded twice
PEAK_BYTES = 200 << 20


async def wrong_colours(make: Make, data: bytes, places: dict[tuple[float, float], tuple[int, ...]]) -> str:
    """What is wrong with what is made of it; empty when nothing is."""
    try:
        made = await make(data)
    except ImageError as error:
        return str(error)
    if made.sizes[0] != made.sizes[1]:
        return f"sizes {made.sizes}"
    for place, wanted in places.items():
        found = made.colour(*place)
        if max(abs(a - b) for a, b in zip(found, wanted, strict=True)) > TOLERANCE:
            return f"{place} is {[round(value) for value in found]}, not {wanted}"
    return ""


async def wrong_ones(
    table: Iterator[tuple[str, bytes]], judge: Callable[[bytes], Awaitable[str]]
) -> dict[str, str]:
    found = {name: await judge(data) for name, data in table}
    assert len(found) > 3
    return {name: what for name, what in found.items() if what}


@pytest.mark.parametrize("table", [turned_pictures, other_pictures])
async def test_it_is_the_same_picture(make: Make, table: Callable[[], Iterator[tuple[str, bytes]]]) -> None:
    assert not await wrong_ones(table(), lambda data: wrong_colours(make, data, {**PLACES}))


async def test_what_is_transparent_is_white(make: Make) -> None:
    image = transparent_corner()
    kinds = ((kind, encoded(image, kind)) for kind in ("PNG", "WEBP", "AVIF", "GIF", "TIFF", "HEIF"))
    white = {**PLACES, (0.2, 0.2): (255, 255, 255)}
    assert not await wrong_ones(kinds, lambda data: wrong_colours(make, data, white))


async def test_a_picture_of_tiles_is_put_together(make: Make) -> None:
    tile = corners(64, 64)
    for data in (tile.heifsave_buffer(compression="av1", keep="none"), encoded(pillow_picture(tile), "HEIF")):
        made = await make(heif_grid(data))
        assert made.sizes[:2] == ((128, 128), (128, 128))
        for at in (0.05, 0.55):  # the red quarter of the first and of the last tile
            assert_colour(made.colour(at, at), RED, TOLERANCE)


@pytest.mark.parametrize("broken", range(4))
async def test_a_picture_with_a_broken_tile_is_not_shown_with_a_hole(make: Make, broken: int) -> None:
    data = heif_grid(encoded(pillow_picture(corners(64, 64)), "HEIF"), broken=broken)
    assert not await refused_as(make, data, "corrupt_image")


async def refused_as(make: Make, data: bytes, *codes: str) -> str:
    started = time.process_time()
    try:
        made = await make(data)
    except ImageError as error:
        assert time.process_time() - started < 1, "our side only waits"
        return "" if error.code in codes and error.detail.endswith(".") else str(error)
    return f"was made: {made.sizes}"


def _detailed(width: int, height: int) -> pyvips.Image:
    noise = pyvips.Image.gaussnoise(width, height, mean=128, sigma=40, seed=7).cast("uchar")
    return noise.bandjoin([noise, noise]).copy(interpretation="srgb")


def cut_pictures() -> Iterator[tuple[str, bytes]]:
    """At each quarter, at the beginning and near the end."""
    detailed = _detailed(320, 240)
    image = pillow_picture(detailed)
    wholes = {
        **{kind: encoded(image, kind) for kind in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "AVIF", "HEIF")},
        "JPEG, progressive": encoded(image, "JPEG", progressive=True),
        "PNG, interlaced": detailed.pngsave_buffer(interlace=True),
        "WEBP, lossless": encoded(image, "WEBP", lossless=True),
        "TIFF, LZW": encoded(image, "TIFF", compression="tiff_lzw"),
        "TIFF, tiles": detailed.tiffsave_buffer(tile=True),
        "AVIF, of tiles": heif_grid(corners(64, 64).heifsave_buffer(compression="av1", keep="none")),
        "HEIC, of tiles": heif_grid(encoded(pillow_picture(corners(64, 64)), "HEIF")),
    }
    for kind, whole in wholes.items():
        for share in (0.02, 0.25, 0.5, 0.75, 0.97):
            yield f"{kind} {share:.0%}", whole[: int(len(whole) * share)]


async def test_a_cut_file_is_never_half_a_picture(make: Make) -> None:
    assert not await wrong_ones(cut_pictures(), lambda data: refused_as(make, data, "truncated_image"))


def unwritten_pictures() -> Iterator[tuple[str, bytes]]:
    """As of a copy that broke off: the size is right, and from some place on there are zeros."""
    image = pillow_picture(_detailed(640, 480))
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "AVIF", "HEIF"):
        options: dict[str, Any] = {"compression": "tiff_lzw"} if kind == "TIFF" else {}
        whole = encoded(image, kind, **options)
        for share in (0.3, 0.6, 0.9):
            written = int(len(whole) * share)
            yield f"{kind} {share:.0%}", whole[:written] + bytes(len(whole) - written)


async def test_a_file_that_was_not_written_to_its_end_is_never_half_a_picture(make: Make) -> None:
    codes = ("truncated_image", "corrupt_image")
    assert not await wrong_ones(unwritten_pictures(), lambda data: refused_as(make, data, *codes))


def foreign_files() -> Iterator[tuple[str, bytes]]:
    image = pillow_picture()
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    yield from ((kind, encoded(image, kind)) for kind in ("BMP", "ICO", "PPM", "TGA"))
    yield "drawing", drawing
    yield "drawing with a header", b'<?xml version="1.0"?>' + drawing
    yield "drawing with a mark", b"\xef\xbb\xbf" + drawing
    yield "drawing after a comment", b"<!-- a -->" + drawing
    yield "drawing in UTF-16", drawing.decode().encode("utf-16")
    yield "compressed drawing", gzip.compress(drawing)
    yield "a JPEG after junk", b"junk" + picture()
    yield "a byte", b"\xff"
    yield "a text", b"1 1\n0\n"
    for name, beginning in {
        "JPEG XL": b"\0\0\0\x0cJXL \r\n\x87\n",
        "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n",
        "PSD": b"8BPS\0\1",
        "PDF": b"%PDF-1.7\n",
        "video": b"\0\0\0\x18ftypisom\0\0\2\0isomiso2",
        "old video": b"\0\0\0\x08wide\0\0\0\x10mdat",
        "program": b"\x7fELF",
        "CR2": b"II*\0\x10\0\0\0CR\2\0",
        "CR3": b"\0\0\0\x18ftypcrx \0\0\0\1crx isom",
        "RAF": b"FUJIFILMCCD-RAW 0201",
        "ORF": b"IIRO\x08\0\0\0",
        "RW2": b"IIU\0\x18\0\0\0",
    }.items():
        yield name, beginning + bytes(200)
    mosaic = {256: (3, 8), 257: (3, 8), 262: (3, 32803)}
    yield "NEF", tiff_with({**mosaic, 259: (3, 34713)})
    yield "ARW", tiff_with({**mosaic, 259: (3, 32767)})
    yield "DNG", tiff_with({256: (3, 8), 257: (3, 8), 262: (3, 2), 50706: (1, 1)})


async def test_a_tiff_with_colours_for_groups_of_pixels_is_said_to_be_one(make: Make) -> None:
    data = encoded(pillow_picture().convert("YCbCr"), "TIFF")
    at = data.index(struct.pack("<HHI", 530, 3, 2)) + 8
    data = data[:at] + struct.pack("<HH", 2, 2) + data[at + 4 :]
    assert not await refused_as(make, data, "unsupported_type")


async def test_a_foreign_file_is_told_from_a_photo(make: Make) -> None:
    assert not await wrong_ones(foreign_files(), lambda data: refused_as(make, data, "unsupported_type"))


def bombs() -> Iterator[tuple[str, bytes]]:
    """Files of some kilobytes that ask for gigabytes, or for minutes."""
    tile = encoded(pillow_picture(corners(64, 64)), "HEIF")
    yield "PNG of a billion in a row", png_declaring(10**9, 1)
    yield (
        "TIFF",
        tiff_with(
            {256: (4, 100_000), 257: (4, 100_000), 258: (3, 8), 262: (3, 1), 273: (4, 8), 279: (4, 64)}
        ),
    )
    yield "WebP", _webp_declaring(16_383, 16_383)
    yield (
        "GIF",
        b"GIF89a" + b"\xff" * 4 + b"\x80\0\0" + bytes(6) + b"," + bytes(4) + b"\xff" * 4 + b"\0\2\2\x44\1\0;",
    )
    yield "HEIC of tiles", heif_grid(tile, says=(60_000, 60_000))
    yield "HEIC of tiles that says less", heif_grid(tile, says=(60_000, 60_000), ispe=(128, 128))
    yield "JPEG of many scans", _many_scans(4000, 4000, 2000)


async def test_a_bomb_is_refused_for_its_pixels(make: Make) -> None:
    assert not await wrong_ones(bombs(), lambda data: refused_as(make, data, "too_many_pixels"))
    assert max(map(_peak_bytes, _decoder_pids())) < PEAK_BYTES


def liars() -> Iterator[tuple[str, bytes]]:
    """Within the limits, and far more than can be in so small a file."""
    yield "JPEG, progressive", jpeg_declaring(10_000, 9000, progressive=True)
    yield "JPEG", jpeg_declaring(16_000, 16_000)
    yield "PNG", png_declaring(9999, 9999)
    yield "PNG, interlaced", png_declaring(9999, 9999, interlaced=True)
    yield "WebP", _webp_declaring(9999, 9999)
    yield (
        "TIFF",
        tiff_with(
            {
                256: (4, 9999),
                257: (4, 9999),
                258: (3, 8),
                259: (3, 5),
                262: (3, 1),
                273: (4, 8),
                278: (4, 9999),
                279: (4, 60),
            }
        ),
    )
    yield "HEIC of tiles", heif_grid(encoded(pillow_picture(corners(64, 64)), "HEIF"), says=(7900, 7900))


async def test_a_file_too_small_for_its_pixels_costs_nothing(make: Make) -> None:
    codes = ("truncated_image", "corrupt_image")
    assert not await wrong_ones(liars(), lambda data: refused_as(make, data, *codes))
    assert max(map(_peak_bytes, _decoder_pids())) < PEAK_BYTES


def with_ballast() -> Iterator[tuple[str, bytes]]:
    """Good pictures that carry something else, which harms nobody."""
    png = encoded(pillow_picture(), "PNG")
    zeros = zlib.compress(bytes(60 << 20), 9)
    yield "compressed text", png[:33] + _chunk(b"zTXt", b"Comment\0\0" + zeros) + png[33:]
    yield "compressed profile", png[:33] + _chunk(b"iCCP", b"x\0\0" + zeros) + png[33:]
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "AVIF", "HEIF"):
        whole = encoded(pillow_picture(), kind, **({"quality": 92} if kind in ("JPEG", "WEBP") else {}))
        yield f"{kind}, bytes after the end", whole + os.urandom(5000)
        yield f"{kind}, an archive after the end", whole + b"PK\x03\x04" + bytes(500)
        yield f"{kind}, zeros after the end", whole + bytes(3000)


async def test_ballast_is_left_alone(make: Make) -> None:
    assert not await wrong_ones(with_ballast(), lambda data: wrong_colours(make, data, {**PLACES}))
    assert max(map(_peak_bytes, _decoder_pids())) < PEAK_BYTES


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (20_000, 3), (400, 17_000)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
async def test_no_shape_is_too_thin(make: Make, kind: str, size: tuple[int, int]) -> None:
    made = await make(encoded(Image.new("RGB", size, (50, 90, 120)), kind))
    assert made.sizes[0] == size
    assert all(1 <= edge <= 2048 for variant in made.sizes[1:] for edge in variant)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _webp_declaring(width: int, height: int) -> bytes:
    data = bytearray(encoded(pillow_picture(), "WEBP", quality=90))
    at = data.index(b"\x9d\x01\x2a") + 3
    data[at : at + 4] = struct.pack("<HH", width, height)
    return bytes(data)


def _many_scans(width: int, height: int, scans: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again."""
    data = encoded(Image.new("L", (width, height), 128), "JPEG", progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last * scans + data[-2:]
