"""How good a poster a frame would make: neither black nor washed out, neither flat nor blurred."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_WIDTH: Final = 320
_DARK, _BRIGHT, _FLAT = 24.0, 235.0, 8.0


@dataclass(frozen=True, slots=True)
class Score:
    """Of a frame's luma from 0 to 255: its mean, its standard deviation, and the variance of its Laplacian."""

    mean: float
    deviation: float
    sharpness: float

    @property
    def is_poor(self) -> bool:
        """Black, white or empty."""
        return not _DARK <= self.mean <= _BRIGHT or self.deviation < _FLAT

    @property
    def value(self) -> float:
        """The greater the better; any frame that is not poor is better than any that is."""
        exposure = max(0.05, 1.0 - abs(self.mean - 118.0) / 150.0)
        contrast = min(1.0, self.deviation / 40.0)
        good = float(np.sqrt(self.sharpness)) * exposure * contrast
        return good if self.is_poor else 1000.0 + good


def score(frame: Any) -> Score:
    """Of a frame of any size."""
    width = min(_WIDTH, frame.width)
    height = max(3, round(frame.height * width / frame.width))
    luma = frame.reformat(width=max(3, width), height=height, format="gray").to_ndarray().astype(np.float32)
    laplacian = luma[:-2, 1:-1] + luma[2:, 1:-1] + luma[1:-1, :-2] + luma[1:-1, 2:] - 4 * luma[1:-1, 1:-1]
    return Score(float(luma.mean()), float(luma.std()), float(laplacian.var()))
