"""HDR to SDR: values that are known from the standards."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lingxi.video.colours import HLG, PQ
from lingxi.video.tone import to_sdr


def gray(code: float, transfer: int) -> float:
    out = to_sdr(np.full((1, 3), code), transfer)[0]
    assert out.max() - out.min() < 0.004, "gray stays gray"
    return float(out[0])


def test_known_levels_of_pq() -> None:
    """Codes of PQ by ITU-R BT.2408: 203 cd/m² is 58 %, 1,000 cd/m² is 75 %, 100 cd/m² is 51 %."""
    assert gray(0.0, PQ) == 0.0
    assert gray(0.58, PQ) == pytest.approx(0.915, abs=0.01)
    assert gray(0.752, PQ) == pytest.approx(1.0, abs=0.005)
    assert gray(1.0, PQ) == 1.0
    assert gray(0.508, PQ) == pytest.approx((100 / 203) ** (1 / 2.4), abs=0.01), "below the knee as it is"


def test_known_levels_of_hlg() -> None:
    """Diffuse white is 75 % of HLG."""
    assert gray(0.0, HLG) < 0.02
    assert gray(0.75, HLG) == pytest.approx(0.915, abs=0.01)
    assert gray(1.0, HLG) == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize("transfer", [PQ, HLG, 14])
def test_brighter_never_becomes_darker(transfer: int) -> None:
    levels = [gray(code, transfer) for code in np.linspace(0, 1, 100)]
    assert all(later >= sooner - 1e-9 for sooner, later in pairwise(levels))


def test_sdr_in_wide_colours_keeps_its_gray_and_its_hue() -> None:
    assert gray(0.5, 14) == pytest.approx(0.5, abs=0.005)
    red = to_sdr(np.array([[0.7, 0.1, 0.1]]), 14)[0]
    assert red[0] > 0.7 > 0.2 > red[1]


def test_a_bright_colour_keeps_its_hue() -> None:
    """Compressed by its brightest channel: an orange lamp does not become yellow or white."""
    dim, bright = (to_sdr(np.array([[code, code - 0.1, code - 0.25]]), PQ)[0] for code in (0.55, 0.75))
    assert bright[0] > dim[0]
    assert bright[0] > bright[1] > bright[2]
    assert bright[2] < 0.75
