"""Sizes of variants."""

from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.errors import ITEM_CODES
from lingxi.imaging.errors import FOR_PHOTOGRAPHERS
from lingxi.imaging.pipeline import fit

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


def test_each_code_has_a_sentence_for_both() -> None:
    for code, sentence in FOR_PHOTOGRAPHERS.items():
        assert code in ITEM_CODES
        assert sentence.endswith(".")
    transient = {code for code in FOR_PHOTOGRAPHERS if ITEM_CODES[code].retryable}
    assert transient == {"decode_timeout", "decoder_crashed", "storage_unavailable"}
