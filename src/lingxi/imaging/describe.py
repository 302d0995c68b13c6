"""What a picture's header and its metadata say, with no pixel decoded. Runs in the decoders' processes."""

import mmap
from typing import Any

import pyvips

from lingxi.imaging import icc, limits
from lingxi.imaging.capture import captured_at
from lingxi.imaging.exif import Exif
from lingxi.imaging.iptc import read_iptc
from lingxi.imaging.loaders import DecodeError, Picture, VipsPicture, open_picture
from lingxi.imaging.refusals import refused
from lingxi.imaging.sniff import ImageKind, sniff
from lingxi.imaging.xmp import read_xmp


def describe(descriptor: int) -> dict[str, Any]:
    """The facts as `children.Described` has them, as JSON takes them. ImageError when it is refused."""
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as content:
        kind = sniff(content)
        try:
            picture = open_picture(kind, content, descriptor)
            limits.check_header(kind, picture, content)
            raw = _raw(picture)
        except (pyvips.Error, DecodeError) as error:
            raise refused(kind, content, str(error)) from error
        return _facts(kind, picture, content, raw)


def _raw(picture: Picture) -> dict[str, Any]:
    """What the loaders do not keep in a Header: other metadata, the depth of a sample, what the numbers are."""
    if isinstance(picture, VipsPicture):
        image = picture.load(strict=False)
        bits = {"uchar": 8, "ushort": 16, "float": 32}.get(image.format, 8)
        return {
            "bit_depth": _whole(image, "heif-bitdepth") or bits,
            "color_space": image.interpretation,
            "iptc": _blob(image, "iptc-data"),
            "xmp": _blob(image, "xmp-data"),
        }
    info = getattr(picture, "info", {})
    return {
        "bit_depth": info.get("bit_depth") or 8,
        "color_space": "srgb",
        "iptc": None,
        "xmp": info.get("xmp"),
    }


def _facts(kind: ImageKind, picture: Picture, content: mmap.mmap, raw: dict[str, Any]) -> dict[str, Any]:
    header = picture.header
    width, height = header.upright
    source: bytes | mmap.mmap = content if kind is ImageKind.TIFF else header.exif or b""
    exif = Exif(source) if source else None
    damaged = exif.damaged if exif is not None else []
    iptc = _part("iptc", raw["iptc"], read_iptc, damaged)
    xmp = _part("xmp", raw["xmp"], read_xmp, damaged)
    camera = exif.camera() if exif is not None else {}
    if lens := xmp.pop("lens", None):
        camera.setdefault("lens", lens)
    in_xmp = bool(xmp.pop("has_position", False))
    places = iptc.pop("places", None)
    texts = {**(exif.texts() if exif is not None else {}), **iptc, **xmp}
    moment = captured_at(source) if source else None
    return {
        "content_type": kind.value,
        "width": width,
        "height": height,
        "orientation": header.orientation,
        "frames": header.frames,
        "bit_depth": raw["bit_depth"],
        "has_alpha": header.has_alpha,
        "color_space": raw["color_space"],
        "color_profile": icc.description(header.profile) if header.profile else None,
        "camera": camera,
        "captured_at": moment.isoformat() if moment else None,
        "captured_local": exif.captured_local() if exif is not None else None,
        "has_position": in_xmp or places is not None or (exif is not None and exif.has_position()),
        "position": exif.position() if exif is not None else None,
        "places": places,
        "texts": texts,
        "damaged": damaged,
    }


def _part(name: str, data: bytes | None, read: Any, damaged: list[str]) -> dict[str, Any]:
    if not data:
        return {}
    try:
        found: dict[str, Any] = read(data)
    except (ValueError, IndexError):
        damaged.append(name)
        return {}
    return found


def _blob(image: pyvips.Image, name: str) -> bytes | None:
    return bytes(image.get(name)) if image.get_typeof(name) != 0 else None


def _whole(image: pyvips.Image, name: str) -> int:
    value = image.get(name) if image.get_typeof(name) != 0 else 0
    return value if isinstance(value, int) else 0
