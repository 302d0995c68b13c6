"""One upright picture, `corners`, written in every way that a camera, a phone or a program may write it; by Pillow and
pillow-heif, so that what libvips reads was not written by libvips."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy
import pillow_heif
import pyvips
from PIL import Image, ImageCms

from tests.support.pictures import corners, lying

WIDTH, HEIGHT = 160, 96
_ORIENTATION = 0x112


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of a file of Pillow's format `kind`."""
    pillow_heif.register_heif_opener()
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def pillow_picture(image: pyvips.Image | None = None) -> Image.Image:
    """`corners`, or another picture of libvips, for Pillow."""
    image = corners(WIDTH, HEIGHT) if image is None else image
    pixels = numpy.ndarray(
        (image.height, image.width, image.bands), numpy.uint8, bytes(image.write_to_memory())
    )
    return Image.fromarray(pixels)


def transparent_corner() -> Image.Image:
    """The picture with a top left quarter that is not there: black below a transparency of 0."""
    pixels = numpy.asarray(pillow_picture().convert("RGBA")).copy()
    pixels[: HEIGHT // 2, : WIDTH // 2] = 0
    return Image.fromarray(pixels)


def turned_pictures() -> Iterator[tuple[str, bytes]]:
    """Every orientation in every container: in EXIF, or in the boxes that HEIC and AVIF have for it."""
    for orientation in range(1, 9):
        lain = pillow_picture(lying(corners(WIDTH, HEIGHT), orientation))
        exif = Image.Exif()
        exif[_ORIENTATION] = orientation
        for kind in ("JPEG", "PNG", "WEBP", "AVIF", "HEIF"):
            yield f"{kind} {orientation}", encoded(lain, kind, exif=exif.tobytes(), quality=92)
        yield f"TIFF {orientation}", encoded(lain, "TIFF", tiffinfo={274: orientation})


def other_pictures() -> Iterator[tuple[str, bytes]]:
    """The same colours in other encodings."""
    upright, image = corners(WIDTH, HEIGHT), pillow_picture()
    others = [image.copy() for _ in range(4)]
    for at, other in enumerate(others):
        other.putpixel((at, 0), (0, 0, 0))
    many: dict[str, Any] = {"save_all": True, "append_images": others}
    sixteen = upright.cast("ushort") * 257
    sixteen = sixteen.cast("ushort").copy(interpretation="rgb16")

    yield "PNG, palette", encoded(image.quantize(16), "PNG")
    yield "PNG, interlaced", upright.pngsave_buffer(interlace=True)
    yield "PNG, 16 bits", sixteen.pngsave_buffer(bitdepth=16)
    yield "PNG, 16 bits, interlaced", sixteen.pngsave_buffer(bitdepth=16, interlace=True)
    for kind in ("PNG", "WEBP", "GIF", "AVIF", "TIFF"):
        yield f"{kind}, first of five", encoded(image, kind, **many)
    yield "MPO", encoded(image, "MPO", save_all=True, append_images=[image.rotate(180)], quality=92)
    yield "WEBP, lossless", encoded(image, "WEBP", lossless=True)
    yield "JPEG, progressive", encoded(image, "JPEG", progressive=True, quality=92)
    for sampling in ("4:4:4", "4:2:2", "4:2:0", "4:1:1"):
        yield f"JPEG, {sampling}", encoded(image, "JPEG", subsampling=sampling, quality=92)
    yield "JPEG, restart markers", encoded(image, "JPEG", restart_marker_blocks=1, quality=92)
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "raw"):
        yield f"TIFF, {compression}", encoded(image, "TIFF", compression=compression)
    for compression in ("lzw", "deflate", "jpeg", "none"):
        yield (
            f"TIFF, tiles, {compression}",
            upright.tiffsave_buffer(compression=compression, tile=True, tile_width=64, tile_height=64, Q=95),
        )
    yield "TIFF, big", upright.tiffsave_buffer(bigtiff=True)
    yield "TIFF, pyramid", upright.tiffsave_buffer(pyramid=True, tile=True, tile_width=64, tile_height=64)
    yield "TIFF, 16 bits", sixteen.tiffsave_buffer()
    yield "TIFF, palette", encoded(image.quantize(64), "TIFF")
    lab = ImageCms.profileToProfile(
        image, ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
    )
    assert lab is not None
    for compression in ("raw", "tiff_lzw"):
        yield f"TIFF, YCbCr, {compression}", encoded(image.convert("YCbCr"), "TIFF", compression=compression)
    yield "TIFF, Lab", encoded(lab, "TIFF")
    yield "TIFF, Lab, LZW", encoded(lab, "TIFF", compression="tiff_lzw")
    for bits in (10, 12):
        yield f"AVIF, {bits} bits", sixteen.heifsave_buffer(compression="av1", bitdepth=bits, Q=95)
    yield "AVIF, 4:4:4", encoded(image, "AVIF", subsampling="4:4:4", quality=95)
    yield "HEIC, 4:4:4", encoded(image, "HEIF", chroma=444, quality=92)
    yield "HEIC, second of two", _second_of_two(image)
    yield "HEIC, 10 bits", deep_heic(sixteen)


def _second_of_two(image: Image.Image) -> bytes:
    file, out = pillow_heif.from_pillow(Image.new("RGB", (64, 64))), io.BytesIO()
    file.add_from_pillow(image)
    file.save(out, quality=92, primary_index=1)
    return out.getvalue()


def deep_heic(image: pyvips.Image) -> bytes:
    """Of a picture of one or three bands of 16 bits; stored as 10 bits."""
    mode = "I;16" if image.bands == 1 else "RGB;16"
    pixels, out = bytes(image.write_to_memory()), io.BytesIO()
    pillow_heif.from_bytes(mode, (image.width, image.height), pixels).save(out, quality=92)
    return out.getvalue()


def heif_grid(
    tile: bytes,
    *,
    says: tuple[int, int] = (128, 128),
    ispe: tuple[int, int] | None = None,
    broken: int | None = None,
) -> bytes:
    """Two by two of the only picture of a HEIC or AVIF file of 64 x 64; `says`: how large the whole claims to be, `ispe`: what
    the property beside it claims, `broken`: of which tile (0 to 3) the first bytes are missing."""
    top = dict(_boxes(tile))
    meta = dict(_boxes(top[b"meta"][4:]))
    shared = dict(_boxes(dict(_boxes(meta[b"iprp"]))[b"ipco"]))
    codec, config = (b"hvc1", b"hvcC") if b"hvcC" in shared else (b"av01", b"av1C")
    items = range(2, 6)
    grid = bytes([0, 1, 1, 1]) + _numbers(4, *says)

    def whole(at: int) -> bytes:
        locations = _numbers(2, 1, 1, 0, 1) + _numbers(4, 0, len(grid))
        for n in items:
            missing = 9 if broken is not None and n == items[broken] else 0
            locations += _numbers(2, n, 0, 0, 1) + _numbers(4, at + missing, len(top[b"mdat"]) - missing)
        names = _full(b"infe", 2, _numbers(2, 1, 0), b"grid\0")
        names += b"".join(_full(b"infe", 2, _numbers(2, n, 0), codec, b"\0") for n in items)
        properties = _box(config, shared[config]) + _full(b"ispe", 0, _numbers(4, 64, 64))
        properties += _full(b"ispe", 0, _numbers(4, *(ispe or says)))
        used = _numbers(4, 5) + _numbers(2, 1) + b"\1\3"
        used += b"".join(_numbers(2, n) + b"\2\x81\2" for n in items)
        described = _full(
            b"meta",
            0,
            _full(b"hdlr", 0, bytes(4), b"pict", bytes(13)),
            _full(b"pitm", 0, _numbers(2, 1)),
            _full(b"iloc", 1, b"\x44\0", _numbers(2, 5), locations),
            _full(b"iinf", 0, _numbers(2, 5), names),
            _full(b"iref", 0, _box(b"dimg", _numbers(2, 1, 4, *items))),
            _box(b"iprp", _box(b"ipco", properties), _full(b"ipma", 0, used)),
            _box(b"idat", grid),
        )
        return _box(b"ftyp", top[b"ftyp"]) + described

    return whole(len(whole(0)) + 8) + _box(b"mdat", top[b"mdat"])


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    while data:
        size = int.from_bytes(data[:4])
        yield data[4:8], data[8:size]
        data = data[size:]


def _numbers(size: int, *values: int) -> bytes:
    return b"".join(value.to_bytes(size) for value in values)


def _box(name: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return (len(body) + 8).to_bytes(4) + name + body


def _full(name: bytes, version: int, *parts: bytes) -> bytes:
    return _box(name, bytes([version, 0, 0, 0]), *parts)
