"""Sizes of variants, their sentences, and a disk that is full."""

import mmap
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.errors import FOR_PHOTOGRAPHERS, ITEM_CODES
from lingxi.imaging.errors import ImageError
from lingxi.imaging.pipeline import fit, make_variants
from tests.support.pictures import picture

edge = st.integers(1, 30_000)


@given(edge, edge)
def test_inside_the_box_never_enlarged_never_empty(width: int, height: int) -> None:
    made_width, made_height = fit(width, height, 2048)
    assert 1 <= made_width <= min(width, 2048)
    assert 1 <= made_height <= min(height, 2048)
    assert max(made_width, made_height) == min(2048, max(width, height))
    assert fit(height, width, 2048) == (made_height, made_width)


@given(edge, edge)
def test_the_shape_is_kept_to_half_a_pixel(width: int, height: int) -> None:
    scale = min(1, 400 / max(width, height))
    for made, exact in zip(fit(width, height, 400), (width * scale, height * scale), strict=True):
        assert abs(made - exact) <= 0.5001 or made == 1


OF_THE_FILE = {
    "empty_file", "unsupported_type", "corrupt_image", "truncated_image", "too_many_pixels", "too_large",
    "decode_timeout", "decoder_crashed", "storage_unavailable",
}  # fmt: skip
OF_OURS = {"worker_lost", "deadline_exceeded", "internal_error", "object_not_found"}


def test_each_code_has_a_sentence_for_both() -> None:
    """They are shown of photos that failed for good, so none says that it is tried again by itself."""
    assert set(FOR_PHOTOGRAPHERS) == OF_THE_FILE | OF_OURS
    for code, sentence in FOR_PHOTOGRAPHERS.items():
        assert code in ITEM_CODES
        assert sentence.endswith(".")
        assert "will be" not in sentence
        assert ("again" in sentence) or not ITEM_CODES[code].retryable
    transient = {code for code in OF_THE_FILE if ITEM_CODES[code].retryable}
    assert transient == {"decode_timeout", "decoder_crashed", "storage_unavailable"}


def test_a_full_disk_is_no_fault_of_the_photo() -> None:
    with tempfile.TemporaryFile() as photo, open("/dev/full", "wb", buffering=0) as full:
        photo.write(picture())
        photo.flush()
        outputs = dict.fromkeys(("browse", "thumb"), full.fileno())
        with (
            mmap.mmap(photo.fileno(), 0, prot=mmap.PROT_READ) as content,
            pytest.raises(ImageError) as caught,
        ):
            make_variants(content, photo.fileno(), outputs, lambda _: None)
    assert caught.value.code == "storage_unavailable"
