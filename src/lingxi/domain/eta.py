"""When will a batch have ended? From how much was finished in each of some equal slices of time before now."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

_EIGHTY_PERCENT = 1.28  # standard deviations on either side
# Neighbouring slices depend on each other (an item runs through several, a machine is busy for a while): with these two the
# range holds as often as it says in the replays of `./run bench eta`.
_DEPENDENCE = 2.5
_LEAST_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds from now, and the range in which the end lies four times of five."""

    seconds: float
    low_seconds: float
    high_seconds: float
    items_per_second: float


def estimate(finished: Sequence[int], slice_seconds: float, remaining: int) -> Eta | None:
    """None while nothing was finished, or when nothing remains.

    `finished`: items by slice. What is not known comes from two sides: the mean of few slices is rough, and the slices to come
    will scatter as those before did. Chance alone makes counts scatter as much as their mean, so less than that is never assumed.
    """
    if not remaining or not sum(finished) or slice_seconds <= 0:
        return None
    mean = fmean(finished)
    scatter = max(mean, variance(finished) if len(finished) > 1 else 0.0)
    slices_left = remaining / mean
    relative = math.sqrt(scatter) / mean * math.sqrt(1 / len(finished) + 1 / slices_left)
    seconds = slices_left * slice_seconds
    spread = 1 + _LEAST_SPREAD + _DEPENDENCE * _EIGHTY_PERCENT * relative
    return Eta(seconds, seconds / spread, seconds * spread, mean / slice_seconds)
