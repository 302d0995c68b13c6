"""Types by content, and what the refusals say."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import ImageKind, content_type_of, sniff
from tests.support.pictures import FORMATS, HEIC_48x32, picture, tiff_with


@pytest.mark.parametrize("kind", FORMATS)
def test_tells_each_format_by_its_content(kind: str) -> None:
    assert sniff(picture(kind)) is ImageKind[kind.upper()]


def test_tells_heic_from_heif_from_avif() -> None:
    assert sniff(HEIC_48x32) is ImageKind.HEIC
    assert sniff(HEIC_48x32.replace(b"ftypheic", b"ftypmif1", 1)) is ImageKind.HEIF
    only_avif = b"\x00\x00\x00\x1cftypmif1\x00\x00\x00\x00mif1avifmiaf"
    assert sniff(only_avif) is ImageKind.AVIF


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"1 1\n0\n", "of no accepted type"),  # libvips would open this as a matrix
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"\xef\xbb\xbf  <?xml version='1.0'?><svg/>", "SVG"),
        (b"%PDF-1.7\n", "PDF"),
        (b"BM\x00\x00", "BMP"),
        (b"\xff\x0a\xfa\x1f", "JPEG XL"),
        (b"\x00\x00\x00\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"\x00\x00\x00\x20ftypisom\x00\x00\x02\x00", "video"),
        (b"\x00\x00\x00\x18ftypcrx \x00\x00\x00\x01crx isom", "RAW"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"PK\x03\x04", "ZIP"),
        (b"\xff\xd8", "of no accepted type"),
        (b"GIF88a", "of no accepted type"),
        (b"RIFF\x00\x00\x00\x00WAVE", "a sound"),
    ],
)
def test_refuses_all_else_and_says_what_it_is(data: bytes, says: str) -> None:
    with pytest.raises(ImageError, match=says) as caught:
        sniff(data)
    assert caught.value.code == "unsupported_type"
    assert content_type_of(data) == "application/octet-stream"


@pytest.mark.parametrize(
    "data",
    [
        b"II*\x00\x10\x00\x00\x00CR\x02\x00" + bytes(64),  # Canon
        tiff_with({50706: (4, 0x01040000)}),  # DNG
        tiff_with({50706: (4, 0x01040000)}, big_endian=True),
        tiff_with({262: (3, 32803)}),  # a mosaic
        tiff_with({259: (3, 34713)}),  # Nikon
        tiff_with({259: (3, 32767)}),  # Sony
    ],
)
def test_a_raw_file_is_no_tiff(data: bytes) -> None:
    with pytest.raises(ImageError, match="RAW"):
        sniff(data)


def test_the_mosaic_of_a_raw_file_is_found_in_a_sub_directory() -> None:
    """A NEF shows a small RGB preview first; its pixels are in the second directory."""
    preview = bytearray(tiff_with({262: (3, 2), 330: (4, 200)}))
    preview += bytes(200 - len(preview))
    mosaic = tiff_with({262: (3, 32803)})[8:]
    with pytest.raises(ImageError, match="RAW"):
        sniff(bytes(preview) + mosaic)


def test_an_empty_file_is_said_to_be_empty() -> None:
    with pytest.raises(ImageError) as caught:
        sniff(b"")
    assert caught.value.code == "empty_file"


@given(
    st.sampled_from([b"", b"II*\x00", b"MM\x00*", b"II+\x00", b"\x00\x00\x00\x1cftyp", HEIC_48x32[:40]]),
    st.binary(),
)
@example(b"II*\x00", b"\x08\x00\x00\x00\xff\xff")
@example(
    b"II*\x00", b"\x08\x00\x00\x00\x01\x00\x4a\x01\x04\x00\x01\x00\x00\x00\x08\x00\x00\x00\x08\x00\x00\x00"
)
def test_whatever_comes_there_is_an_answer(start: bytes, rest: bytes) -> None:
    content_type_of(start + rest)
