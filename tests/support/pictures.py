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

# (40, 190, 59) of Display P3, as its colour box says; it has no profile.
HEIC_GREEN_P3 = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAVVtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAAA5waXRtAAAA"
    "AAABAAAAImlsb2MAAAAAREAAAQABAAAAAAF5AAEAAAAAAAAAGAAAACNpaW5mAAAAAAABAAAAFWluZmUCAAAAAAEAAGh2YzEAAAAA1WlwcnAAAAC3"
    "aXBjbwAAAHhodmNDAQNwAAAAAAAAAAAAHvAA/P34+AAADwMgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQCEAAQArQgEBA3AAAAMAkAAAAwAA"
    "AwAeoCCBBZbqSSmubgQEDAgAAAMACAAAAwAIQCIAAQAHRAHBcrAiQAAAABRpc3BlAAAAAAAAAEAAAABAAAAAEHBpeGkAAAAAAwgICAAAABNjb2xy"
    "bmNseAAMAA0ABoAAAAAWaXBtYQAAAAAAAAABAAEDgQKDAAAAIG1kYXQAAAAUKAGvWPkOkl8Wf3/+OJ//YqAxsgs="
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


def corners(width: int, height: int, *, bands: int = 3) -> pyvips.Image:
    """An upright picture that shows how it lies: red, green, blue and white from the top left, clockwise."""
    colours = ((220, 30, 30), (30, 200, 30), (240, 240, 240), (30, 30, 220))
    half_width, half_height = width // 2, height // 2
    image = pyvips.Image.black(width, height, bands=3) + colours[0]
    image = image.draw_rect(list(colours[1]), half_width, 0, width - half_width, half_height, fill=True)
    image = image.draw_rect(
        list(colours[2]), half_width, half_height, width - half_width, height - half_height, fill=True
    )
    image = image.draw_rect(list(colours[3]), 0, half_height, half_width, height - half_height, fill=True)
    image = image.cast("uchar").copy(interpretation="srgb")
    return image if bands == 3 else image.bandjoin([255] * (bands - 3)).copy(interpretation="srgb")


def lying(image: pyvips.Image, orientation: int) -> pyvips.Image:
    """The upright picture as it lies in a file whose EXIF orientation turns it upright again."""
    turned: dict[int, Any] = {
        1: lambda: image,
        2: lambda: image.fliphor(),
        3: lambda: image.rot180(),
        4: lambda: image.flipver(),
        5: lambda: image.rot90().fliphor(),
        6: lambda: image.rot270(),
        7: lambda: image.rot270().fliphor(),
        8: lambda: image.rot90(),
    }
    lain = turned[orientation]().copy_memory().copy()
    lain.set_type(pyvips.GValue.gint_type, "orientation", orientation)
    return lain


def icc_profile(space: bytes, curves: dict[bytes, float], primaries: dict[bytes, tuple[float, ...]]) -> bytes:
    """A version 2 display profile of plain gammas."""
    white = (0.9642, 1.0, 0.8249)
    tags = {b"wtpt": white, **primaries}
    bodies = {
        name: b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(value * 65536) for value in xyz))
        for name, xyz in tags.items()
    }
    for name, gamma in curves.items():
        bodies[name] = b"curv\0\0\0\0" + struct.pack(">IHH", 1, round(gamma * 256), 0)
    bodies[b"desc"] = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + bytes(78)
    bodies[b"cprt"] = b"text\0\0\0\0none\0"
    at, table, data = 132 + 12 * len(bodies), b"", b""
    for name, body in bodies.items():
        body += bytes(-len(body) % 4)
        table += name + struct.pack(">II", at + len(data), len(body))
        data += body
    header = bytearray(128)
    header[8:12] = b"\x02\x10\0\0"
    header[12:24] = b"mntr" + space + b"XYZ "
    header[36:40] = b"acsp"
    header[68:80] = struct.pack(">3i", *(round(value * 65536) for value in white))
    whole = bytes(header) + struct.pack(">I", len(bodies)) + table + data
    return struct.pack(">I", len(whole)) + whole[4:]


def with_profile(image: pyvips.Image, profile: bytes) -> pyvips.Image:
    """The same numbers, said to be of `profile`."""
    tagged = image.copy()
    tagged.set_type(pyvips.GValue.blob_type, "icc-profile-data", profile)
    return tagged


def exif(
    *, ifd0: dict[int, str] | None = None, details: dict[int, str] | None = None, thumbnail: bytes = b""
) -> bytes:
    """An EXIF block of text entries: of the first directory, and of the one with the photo's details."""

    def directory(entries: dict[int, bytes], start: int, pointers: dict[int, int]) -> tuple[bytes, bytes]:
        table, data = b"", b""
        size = 2 + 12 * (len(entries) + len(pointers)) + 4
        for tag in sorted([*entries, *pointers]):
            if tag in pointers:
                table += struct.pack("<HHII", tag, 4, 1, pointers[tag])
                continue
            text = entries[tag]
            if len(text) <= 4:
                table += struct.pack("<HHI", tag, 2, len(text)) + text.ljust(4, b"\0")
            else:
                table += struct.pack("<HHII", tag, 2, len(text), start + size + len(data))
                data += text + bytes(len(text) % 2)
        return struct.pack("<H", len(entries) + len(pointers)) + table, data

    texts = [{tag: text.encode() + b"\0" for tag, text in (given or {}).items()} for given in (ifd0, details)]
    first, first_data = directory(texts[0], 8, {34665: 0})
    second_at = 8 + len(first) + 4 + len(first_data)
    second, second_data = directory(texts[1], second_at, {})
    first, first_data = directory(texts[0], 8, {34665: second_at})
    third_at = second_at + len(second) + 4 + len(second_data)
    third = struct.pack(
        "<HHHIIHHIII", 2, 513, 4, 1, third_at + 30, 514, 4, 1, len(thumbnail), 0
    )  # where the thumbnail lies, and its length
    following = third_at if thumbnail else 0
    return b"".join(
        [
            b"Exif\0\0II*\0\x08\0\0\0",
            first + struct.pack("<I", following) + first_data,
            second + bytes(4) + second_data,
            third + thumbnail if thumbnail else b"",
        ]
    )


def heic_photo(width: int, height: int) -> bytes:
    """A HEIC of the four corners, as a phone would write it."""
    import io

    import pillow_heif

    image = corners(width, height)
    pixels = bytes(image.write_to_memory())
    out = io.BytesIO()
    pillow_heif.from_bytes("RGB", (width, height), pixels).save(out, quality=80)
    return out.getvalue()
