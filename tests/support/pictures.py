"""Pictures for tests, made by code: every format, every orientation, and what hostile or unlucky people send."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pyvips

# 48 x 32 in a coded 64 x 64 (clean aperture), with an EXIF orientation of 6 that a HEIC reader must not apply.
HEIC_48x32 = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAb5tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAADRpbG9jAAAA"
    "AERAAAIAAQAAAAAB4gABAAAAAAAAABwAAgAAAAAB/gABAAAAAAAAACQAAAA4aWluZgAAAAAAAgAAABVpbmZlAgAAAAABAABodmMxAAAAABVpbmZl"
    "AgAAAQACAABFeGlmAAAAAA5waXRtAAAAAAABAAAA/WlwcnAAAADdaXBjbwAAAHZodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH/"
    "/wNwAAADAJAAAAMAAAMAHroCQGEAAQAqQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbq5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29s"
    "cm5jbHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAoY2xhcAAAADAAAAABAAAAIAAAAAH////wAAAAAv///+AAAAACAAAAEHBpeGkAAAAA"
    "AwgICAAAABhpcG1hAAAAAAAAAAEAAQWBAgMFhAAAABppcmVmAAAAAAAAAA5jZHNjAAIAAQABAAAASG1kYXQAAAAYKAGvGYDuJgF9a0529CAYHeqd"
    "h/IrNYO4AAAABkV4aWYAAE1NACoAAAAIAAEBEgADAAAAAQAGAAAAAAAA"
)

_SAVERS: dict[str, Any] = {
    "jpeg": lambda image, **options: image.jpegsave_buffer(Q=80, **options),
    "png": lambda image, **options: image.pngsave_buffer(compression=1, **options),
    "webp": lambda image, **options: image.webpsave_buffer(effort=0, **options),
    "gif": lambda image, **options: image.gifsave_buffer(effort=1, **options),
    "tiff": lambda image, **options: image.tiffsave_buffer(compression="lzw", **options),
    "avif": lambda image, **options: image.heifsave_buffer(compression="av1", effort=0, **options),
}
FORMATS = tuple(_SAVERS)


def picture(
    kind: str = "jpeg", width: int = 120, height: int = 80, *, orientation: int | None = None, **options: Any
) -> bytes:
    """A picture with detail in every corner, so that a part of it is missed."""
    noise = pyvips.Image.gaussnoise(width, height, mean=128, sigma=40, seed=7).cast("uchar")
    image = noise.bandjoin([noise, noise]).copy(interpretation="srgb")
    if orientation is not None:
        image = image.copy()
        image.set_type(pyvips.GValue.gint_type, "orientation", orientation)
    data: bytes = _SAVERS[kind](image, **options)
    return data


def cut(data: bytes, share: float = 0.6) -> bytes:
    """The first part of a file, as of an upload that broke off."""
    return data[: int(len(data) * share)]


def damaged(data: bytes) -> bytes:
    """A byte in the middle was changed."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def png_declaring(width: int, height: int, *, interlaced: bool = False) -> bytes:
    """A tiny PNG whose header asks for `width` x `height`: a bomb before its pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, int(interlaced))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


def jpeg_declaring(width: int, height: int, *, progressive: bool = False) -> bytes:
    """A JPEG whose frame header was overwritten with `width` x `height`."""
    data = bytearray(picture("jpeg", 64, 64, interlace=progressive))
    at = data.index(b"\xff\xc2" if progressive else b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def tiff_with(tags: dict[int, tuple[int, int]], *, big_endian: bool = False) -> bytes:
    """A TIFF of one directory; tag → (type, value) of single values."""
    order = ">" if big_endian else "<"
    entries = b"".join(
        struct.pack(f"{order}HHI", tag, kind, 1)
        + (struct.pack(f"{order}HH", value, 0) if kind == 3 else struct.pack(f"{order}I", value))
        for tag, (kind, value) in sorted(tags.items())
    )
    magic = b"MM\x00*" if big_endian else b"II*\x00"
    return magic + struct.pack(f"{order}IH", 8, len(tags)) + entries + struct.pack(f"{order}I", 0) + bytes(64)
