"""What a media file is, by its first bytes; whether it was cut."""

from __future__ import annotations

import os
import tempfile

import pytest

from lingxi.video.errors import VideoError
from lingxi.video.pictures import fit
from lingxi.video.sniff import sniff
from lingxi.video.wholeness import is_cut


def box(kind: bytes, payload: bytes = b"", size: int | None = None) -> bytes:
    return (8 + len(payload) if size is None else size).to_bytes(4) + kind + payload


KNOWN = {
    "video/mp4": box(b"ftyp", b"isom\0\0\2\0"),
    "video/quicktime": box(b"ftyp", b"qt  \0\0\2\0"),
    "audio/mp4": box(b"ftyp", b"M4A \0\0\2\0"),
    "video/webm": b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm",
    "video/x-matroska": b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x88matroska",
    "video/x-msvideo": b"RIFF\0\0\0\0AVI LIST",
    "video/mp2t": (b"\x47" + bytes(187)) * 4,
    "video/mpeg": b"\0\0\1\xba" + bytes(20),
    "video/x-flv": b"FLV\x01\x05",
    "audio/wav": b"RIFF\0\0\0\0WAVEfmt ",
    "audio/flac": b"fLaC" + bytes(20),
    "audio/ogg": b"OggS" + bytes(20),
    "audio/mpeg": b"ID3\x04" + bytes(20),
    "audio/aac": b"\xff\xf1\x50\x80" + bytes(20),
}


@pytest.mark.parametrize("content_type", KNOWN)
def test_known_types(content_type: str) -> None:
    assert sniff(KNOWN[content_type]).content_type == content_type


def test_more_ways_to_begin() -> None:
    assert sniff(box(b"moov", bytes(20))).content_type == "video/quicktime"
    assert sniff(box(b"moof", bytes(20))).demuxer == "mov"
    assert sniff(b"\xff\xfb\x90\x00" + bytes(20)).content_type == "audio/mpeg"
    assert sniff(b"\0\0\0\0" + (b"\x47" + bytes(191)) * 4).content_type == "video/mp2t"


@pytest.mark.parametrize(
    "data",
    [
        b"#EXTM3U\n",
        b"ffconcat version 1.0\n",
        b"<?xml version='1.0'?><MPD>",
        b"\xff\xd8\xff\xe0",
        box(b"ftyp", b"heic"),
        box(b"ftyp", b"avif"),
        b"\xff\xff\xff\xff" * 10,
        b"\0" * 100,
    ],
)
def test_what_could_open_other_files_is_no_type(data: bytes) -> None:
    with pytest.raises(VideoError) as caught:
        sniff(data)
    assert caught.value.code == "unsupported_type"


TS = b"\x47" + bytes(187)
PACK = b"\0\0\1\xba\x44" + bytes(8) + b"\xf8"
FLV = b"FLV\1\5\0\0\0\x09\0\0\0\0" + b"\x09\0\0\5" + bytes(7) + b"hello" + (16).to_bytes(4)


@pytest.mark.parametrize(
    ("data", "demuxer", "cut"),
    [
        (box(b"ftyp") + box(b"mdat", bytes(40)), "mov", False),
        (box(b"ftyp") + box(b"mdat", bytes(40), size=100), "mov", True),
        (box(b"ftyp") + box(b"mdat", bytes(40), size=0), "mov", False),
        (box(b"ftyp") + b"\0\0\0\1mdat" + (2**40).to_bytes(8), "mov", True),
        (box(b"ftyp") + b"\xff\xff\xff\xff\0\1\2\3" + bytes(20), "mov", False),
        (box(b"ftyp") + b"\0\0\0", "mov", False),
        (b"\x1aE\xdf\xa3\x80\x18\x53\x80\x67\x85hello", "matroska", False),
        (b"\x1aE\xdf\xa3\x80\x18\x53\x80\x67\x86hello", "matroska", True),
        (b"\x1aE\xdf\xa3\x80\x18\x53\x80\x67\xffhello", "matroska", False),
        (b"\x1aE\xdf\xa3\x80\x18\x53\x80\x67\x01\0\0\0\0\0\0\x09hello", "matroska", True),
        (b"\x1aE\xdf\xa3\x80\x18\x53\x80", "matroska", False),
        (b"RIFF\x08\0\0\0AVI LIST", "avi", False),
        (b"RIFF\x09\0\0\0AVI LIST", "avi", True),
        (b"RIFF\0\0\0\0AVI LIST", "avi", False),
        (TS * 4, "mpegts", False),
        (TS * 4 + TS[:100], "mpegts", True),
        ((b"\0\0\0\0" + TS) * 4, "mpegts", False),
        ((b"\0\0\0\0" + TS) * 4 + TS[:188], "mpegts", True),
        (PACK + b"\0\0\1\xe0\0\5hello\0\0\1\xb9", "mpeg", False),
        (PACK + b"\0\0\1\xe0\0\5hello", "mpeg", False),
        (PACK + b"\0\0\1\xe0\0\5hello\0\0\1\xc0\0\5hell", "mpeg", True),
        (PACK + b"\0\0\1\xe0\0\5hello" + PACK[:9], "mpeg", True),
        (b"\0\0\1\xba\x21" + bytes(7) + b"\0\0\1\xe0\0\5hello", "mpeg", False),
        (b"\0\0\1\xba\x21" + bytes(7) + b"\0\0\1\xe0\0\6hello", "mpeg", True),
        (FLV, "flv", False),
        (FLV[:-1], "flv", True),
        (FLV[:-6], "flv", True),
        (FLV[:9], "flv", True),
        (b"OggS", "ogg", False),
    ],
)
def test_cut_files(data: bytes, demuxer: str, cut: bool) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        assert is_cut(file.fileno(), demuxer) is cut
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == len(data)


@pytest.mark.parametrize(
    ("size", "fitted"),
    [
        ((1920, 1080), (1920, 1080)),
        ((1080, 1920), (1080, 1920)),
        ((3840, 2160), (1920, 1080)),
        ((2048, 858), (1920, 804)),
        ((1440, 1440), (1080, 1080)),
        ((9999, 3), (1920, 2)),
        ((1, 1), (2, 2)),
        ((853, 479), (852, 478)),
    ],
)
def test_sizes(size: tuple[int, int], fitted: tuple[int, int]) -> None:
    assert fit(*size, 1920, 1080) == fitted
