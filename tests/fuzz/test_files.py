"""Good pictures of every format, cut at each quarter and with flipped bytes: a picture or a code, and never a dead loop."""

from __future__ import annotations

import random

import pytest

from lingxi.domain.errors import ITEM_CODES
from lingxi.imaging.errors import ImageError
from tests.integration.imaging.conftest import Make, decoders, make
from tests.support.pictures import FORMATS, picture

__all__ = ["decoders", "make"]


async def _code(make: Make, data: bytes) -> str | None:
    """None: both variants were made, and they are whole JPEGs."""
    try:
        made = await make(data)
    except ImageError as error:
        return error.code
    assert made.browse.startswith(b"\xff\xd8") and made.browse.endswith(b"\xff\xd9")
    return None


@pytest.mark.parametrize("flips", [10, pytest.param(300, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("kind", FORMATS)
async def test_good_files_cut_or_flipped_get_a_code_each(make: Make, kind: str, flips: int) -> None:
    """Of damage in the pixels some is a picture all the same; a cut file never is, and a good one after it always."""
    good, chance = picture(kind, 300, 200), random.Random(kind)
    assert await _code(make, good) is None
    for quarter in range(4):
        cut = good[: len(good) * quarter // 4]
        code = await _code(make, cut)
        assert code in ("truncated_image", "corrupt_image", "unsupported_type", "empty_file"), (quarter, code)
    for number in range(flips):
        flipped = bytearray(good)
        for _ in range(1 + number % 4):
            within = min(len(good), 512) if number % 2 else len(good)
            flipped[chance.randrange(within)] ^= 1 << chance.randrange(8)
        assert await _code(make, bytes(flipped)) in {None, *ITEM_CODES}
    assert await _code(make, good) is None
