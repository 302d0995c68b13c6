"""A file that was cut is told from one that is damaged, at whatever byte it was cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import sniff
from lingxi.imaging.wholeness import check_boxes, undecodable
from tests.support.pictures import HEIC_48x32, picture

WHOLE = {kind: picture(kind, 60, 40) for kind in ("jpeg", "png", "gif", "tiff", "webp")}


@pytest.mark.parametrize("kind", WHOLE)
@given(share=st.floats(0.2, 0.999))
@settings(max_examples=60, deadline=None)
def test_a_cut_file_is_said_to_be_cut(kind: str, share: float) -> None:
    data = WHOLE[kind]
    part = data[: int(len(data) * share)]
    assert undecodable(sniff(data), part).code == "truncated_image"


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_file_that_does_not_decode_is_said_to_be_damaged(kind: str) -> None:
    data = WHOLE[kind]
    assert undecodable(sniff(data), data).code == "corrupt_image"


def test_the_end_marker_of_a_thumbnail_is_not_the_end_of_the_picture() -> None:
    jpeg = picture("jpeg", 60, 40)
    thumbnail = b"Exif\x00\x00" + picture("jpeg", 8, 8)
    segment = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2) + thumbnail
    cut = jpeg[:2] + segment + jpeg[2 : len(jpeg) // 2]
    assert b"\xff\xd9" in cut
    assert undecodable(sniff(cut), cut).code == "truncated_image"


@pytest.mark.parametrize("data", [HEIC_48x32, picture("avif")])
def test_a_whole_heic_or_avif_passes(data: bytes) -> None:
    check_boxes(data)
    for behind in (bytes(5), bytes(50), b"junk" * 9, b"\0\0\0\3abcd", b"PK\3\4" + bytes(90)):
        check_boxes(data + behind)


@pytest.mark.parametrize("data", [HEIC_48x32, picture("avif")])
def test_a_heic_or_avif_cut_anywhere_is_refused(data: bytes) -> None:
    """Its decoder says nothing: half of the picture would be green."""
    for size in range(32, len(data)):
        with pytest.raises(ImageError) as caught:
            check_boxes(data[:size])
        assert caught.value.code == "truncated_image", size


def test_a_file_cut_between_two_boxes_is_missed_by_its_items() -> None:
    without_data = HEIC_48x32[: HEIC_48x32.index(b"mdat") - 4]
    with pytest.raises(ImageError, match="cut off"):
        check_boxes(without_data)


@given(st.binary(max_size=400), st.integers(0, len(HEIC_48x32)))
def test_damaged_boxes_are_refused_and_never_a_crash(noise: bytes, at: int) -> None:
    damaged = HEIC_48x32[:at] + noise + HEIC_48x32[at + len(noise) :]
    assert _code_of(damaged) in (None, "truncated_image", "corrupt_image", "unsupported_type")


def _code_of(data: bytes) -> str | None:
    try:
        check_boxes(data)
    except ImageError as error:
        return error.code
    return None
