"""What kind of media file it is, by its content: names and headers of requests are only claims.

The demuxer is chosen here and never by libavformat, whose playlists and concatenations open other files.
"""

import re
from dataclasses import dataclass
from typing import Final

from lingxi.video.errors import VideoError

HEAD_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class MediaKind:
    """A type that is accepted: its content type, and libavformat's demuxer for it."""

    content_type: str
    demuxer: str


_QUICKTIME: Final = MediaKind("video/quicktime", "mov")
_MP4: Final = MediaKind("video/mp4", "mov")
_BY_BRAND: Final = {b"qt  ": _QUICKTIME} | {
    brand: MediaKind("audio/mp4", "mov") for brand in (b"M4A ", b"M4B ", b"M4P ")
}
_NO_VIDEO_BRANDS: Final = re.compile(rb"hei[cfmsx]|hev[cmsx]|mif\d|msf\d|avi[fs]|miaf|crx |jp[2xm] |jxl ")
_OLD_QUICKTIME: Final = {b"moov", b"mdat", b"wide", b"pnot"}
_EBML: Final = b"\x1aE\xdf\xa3"
_TS_PACKETS: Final = ((188, 0), (192, 4))  # size, and where the sync byte lies in the first
_MP3_FRAME: Final = re.compile(rb"\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff][\x10-\xef]", re.DOTALL)


def sniff(head: bytes) -> MediaKind:
    """The kind of a file that begins with `head` (HEAD_BYTES of it); VideoError `empty_file` or `unsupported_type`."""
    if not head:
        raise VideoError("empty_file", "The file is empty.")
    if (kind := _sniff(head)) is None:
        accepted = "MP4, MOV, MKV, WebM, AVI, MPEG-TS, MPEG-PS, FLV, or sound: M4A, MP3, AAC, WAV, FLAC, Ogg"
        raise VideoError("unsupported_type", f"The file is of no accepted type ({accepted}).")
    return kind


def _sniff(head: bytes) -> MediaKind | None:
    box = head[4:8]
    if box == b"ftyp":
        brand = head[8:12]
        return None if _NO_VIDEO_BRANDS.match(brand) else _BY_BRAND.get(brand, _MP4)
    if box in _OLD_QUICKTIME:
        return _QUICKTIME
    if box in (b"styp", b"moof", b"sidx"):
        return _MP4
    if head.startswith(_EBML):
        name = "video/webm" if b"webm" in head[:128] else "video/x-matroska"
        return MediaKind(name, "matroska")
    if head[:4] == b"RIFF":
        return {b"AVI ": MediaKind("video/x-msvideo", "avi"), b"WAVE": MediaKind("audio/wav", "wav")}.get(
            head[8:12]
        )
    for magic, kind in (
        (b"OggS", MediaKind("audio/ogg", "ogg")),
        (b"fLaC", MediaKind("audio/flac", "flac")),
        (b"FLV\x01", MediaKind("video/x-flv", "flv")),
        (b"\x00\x00\x01\xba", MediaKind("video/mpeg", "mpeg")),
        (b"ID3", MediaKind("audio/mpeg", "mp3")),
    ):
        if head.startswith(magic):
            return kind
    for size, offset in _TS_PACKETS:
        if len(head) >= 4 * size and all(head[offset + size * index] == 0x47 for index in range(4)):
            return MediaKind("video/mp2t", "mpegts")
    if head[0] == 0xFF and head[1:2] and head[1] & 0xF6 == 0xF0:
        return MediaKind("audio/aac", "aac")
    return MediaKind("audio/mpeg", "mp3") if _MP3_FRAME.match(head) else None
